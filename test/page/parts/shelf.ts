/**
 * Puts one part of the page at a time into a page of its own, for tests: `show` is called by
 * them. Functions that a part is given note what they were told.
 */
import { type ComponentType, h, render } from "preact"
import { ArgsForm } from "../../../src/page/parts/ArgsForm.ts"
import { CallView } from "../../../src/page/parts/CallView.ts"
import { Diff, DiffText } from "../../../src/page/parts/Diff.ts"
import { RuleGraph } from "../../../src/page/parts/RuleGraph.ts"
import { SafeText } from "../../../src/page/parts/SafeText.ts"
import { Timeline } from "../../../src/page/parts/Timeline.ts"

const parts = { ArgsForm, CallView, Diff, DiffText, RuleGraph, SafeText, Timeline }

const told: Array<unknown> = []

const show = (name: keyof typeof parts, props: Readonly<Record<string, unknown>>): void => {
  const tell = (it: unknown) => void told.push(it)
  const given = {
    onChange: tell,
    addressOf: ({ callId }: { readonly callId: string }) => `#${callId}`,
    onShown: () => tell("shown"),
    ...props
  }
  render(h(parts[name] as ComponentType<object>, given), document.getElementById("app")!)
}

Object.assign(globalThis, { show, told })
