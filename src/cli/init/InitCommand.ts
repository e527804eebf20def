/** `tool-executor init`: writes a project that runs. */
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { basename, resolve } from "node:path"
import * as FileChange from "../../core/vocabulary/FileChange.ts"
import { escape, escapeLines } from "../../internal/escape.ts"
import { type Keyboard, Terminal } from "../../terminal/Keyboard.ts"
import { CliFailure, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import * as InitFiles from "./InitFiles.ts"
import * as InitProject from "./InitProject.ts"

const choice = <K extends string>(name: string, among: { readonly [key in K]: string }, description: string) =>
  Flag.Literals(name, Object.keys(among) as [K, ...ReadonlyArray<K>]).pipe(
    Flag.withDescription(description),
    Flag.optional
  )

const input = {
  kind: choice("kind", InitProject.kinds, "What you are building"),
  provider: choice("provider", InitProject.providers, "Who runs the model"),
  packageManager: choice("package-manager", InitProject.managers, "Default without a terminal: npm"),
  dir: Flags.text("dir", "DIR", "The folder of the project; default: the current one"),
  yes: Flags.toggle("yes", "Accept changes of files that exist")
}

export const command = Command.make(
  "init",
  input,
  Effect.fnUntraced(function*({ dir, kind, packageManager, provider, yes }) {
    const root = resolve(Option.getOrElse(dir, () => "."))
    const keyboard = yield* yield* Terminal
    const chosen: InitProject.Choice = {
      kind: yield* chooseOf(keyboard, "What are you building?", "--kind", InitProject.kinds, kind),
      provider: yield* chooseOf(keyboard, "Who runs the model?", "--provider", InitProject.providers, provider)
    }
    const manager = Option.isNone(keyboard) && Option.isNone(packageManager)
      ? "npm"
      : yield* chooseOf(keyboard, "Which package manager?", "--package-manager", InitProject.managers, packageManager)
    const { changes, folder } = yield* plan(root, chosen)
    const changed = changes.filter((it) => it.before !== undefined)
    if (changed.length > 0 && !(yield* isAccepted(keyboard, changed, yes))) {
      return yield* new CliFailure({ code: 1, explanation: "Nothing was written." })
    }
    yield* InitFiles.write(root, changes)
    yield* Files.print(summary(root, changes, { ...chosen, manager, folder }))
  }, Effect.scoped)
).pipe(
  Command.withShortDescription("Start a project: a guard, an agent or a backend"),
  Command.withDescription(
    "Writes a project with tools, a test and a scripted model: it type-checks, and its tests need no key. Asks what you are " +
      "building, for the provider of the model and for the package manager, unless flags say so. In a folder with a " +
      "package.json, the files go into the folder tool-executor, and changes of package.json are shown before they are " +
      "made. Without a terminal, --yes accepts them. All files are written, or none."
  ),
  Command.withExamples([
    { command: "tool-executor init", description: "Answer three questions" },
    {
      command: "tool-executor init --dir shop --kind backend --provider anthropic --package-manager npm",
      description: "Without questions"
    }
  ])
)

const plan = Effect.fnUntraced(function*(root: string, chosen: InitProject.Choice) {
  const manifest = (yield* InitFiles.found(root, ["package.json"])).get("package.json")
  const templates = yield* InitFiles.templateTexts(InitProject.templatesOf(chosen, yield* InitFiles.templates))
  const versions = yield* InitFiles.versions(root)
  const { files, folder } = yield* Effect.try({
    try: () => InitProject.filesOf(chosen, templates, versions, { manifest, name: InitProject.nameOf(basename(root)) }),
    catch: (error) => error instanceof CliFailure ? error : wrong(String(error))
  })
  return { folder, changes: InitProject.changesOf(files, yield* InitFiles.found(root, files.keys())) }
})

/** The value of a flag, or what the person chooses. */
const chooseOf = Effect.fnUntraced(function*<K extends string>(
  keyboard: Option.Option<Keyboard>,
  title: string,
  flag: string,
  among: { readonly [key in K]: string },
  given: Option.Option<K>
): Effect.fn.Return<K, CliFailure> {
  if (Option.isSome(given)) return given.value
  const names = Object.keys(among).filter((it): it is K => Object.hasOwn(among, it))
  if (Option.isNone(keyboard)) {
    return yield* wrong(`${flag} is missing, and there is no terminal to ask. Set it to one of ${names.join(", ")}.`)
  }
  const { key, write } = keyboard.value
  const lines = names.map((name, index) => `  [${index + 1}] ${name.padEnd(10)} ${among[name]}\n`)
  let prompt = `\n${title}\n${lines.join("")}`
  while (true) {
    const pressed = Option.getOrElse(yield* key(prompt), () => "escape")
    prompt = ""
    if (pressed === "escape" || pressed === "q") {
      return yield* new CliFailure({ code: 1, explanation: "Nothing was written." })
    }
    const name = names[Number(pressed) - 1]
    if (name !== undefined) {
      yield* write(`  → ${name}\n`)
      return name
    }
  }
})

/** Shows how files that exist would change; true if that is accepted. */
const isAccepted = Effect.fnUntraced(function*(
  keyboard: Option.Option<Keyboard>,
  changed: ReadonlyArray<InitProject.Change>,
  yes: boolean
) {
  const diff = escapeLines(FileChange.diff(changed))
  if (Option.isNone(keyboard) || yes) {
    yield* Files.print(diff)
    if (yes) return true
    return yield* wrong("These changes need your approval, and there is no terminal. --yes accepts them.")
  }
  const { key, write } = keyboard.value
  let prompt = `\n${diff}\nMake these changes? [y] yes  [n] no `
  while (true) {
    const pressed = Option.getOrElse(yield* key(prompt), () => "escape")
    prompt = ""
    if (pressed === "y" || pressed === "n" || pressed === "escape") {
      yield* write(`${pressed === "y" ? "y" : "n"}\n`)
      return pressed === "y"
    }
  }
})

const summary = (
  root: string,
  changes: ReadonlyArray<InitProject.Change>,
  { folder, kind, manager }: InitProject.Choice & { readonly manager: InitProject.Manager; readonly folder: string }
): string => {
  const steps: ReadonlyArray<readonly [string, string]> = [
    ...(root === resolve(".") ? [] : [[`cd ${escape(root)}`, "the project"] as const]),
    ...InitProject.nextSteps({ kind, manager, folder })
  ]
  const width = Math.max(...steps.map(([it]) => it.length))
  return [
    ...changes.map((it) => `  ${it.before === undefined ? "+" : "~"} ${it.path}`),
    "",
    changes.length === 0 ? "Every file is there already." : `${changes.length} files written.`,
    "",
    "Next:",
    ...steps.map(([command, what]) => `  ${command.padEnd(width)}  # ${what}`),
    "",
    `Start with ${folder}src/tools.ts (what the model can do), then ${folder}src/${
      { guard: "answer", agent: "agent", backend: "server" }[kind]
    }.ts (what may run without approval).`
  ].join("\n")
}
