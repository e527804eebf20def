/**
 * One question: all of it, the answers that it takes, and how it ended.
 *
 * @since 0.1.0
 */
import type { VNode } from "preact"
import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import type { EndedQuestion } from "../server/ApiQuestions.ts"
import { AnswerForm } from "./AnswerForm.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { Deadline, Failure } from "./pieces.ts"
import { QuestionBody, useQuestion } from "./QuestionBody.ts"
import { to } from "./routes.ts"
import { known, me } from "./state.ts"
import { count, ending, time } from "./words.ts"

/** Shows the question of an id. */
export const QuestionView = ({ id }: { readonly id: string }): VNode => {
  const { again, read, seen } = useQuestion(id)
  const hash = seen?.hash
  // what was loaded of one question says nothing of the next under its id
  const [whole, setWhole] = useState<string | undefined>(undefined)
  const onWhole = useCallback((it: boolean) => setWhole(it ? hash : undefined), [hash])
  const body = (isOver: boolean) =>
    seen === undefined
      ? null
      : html`<${QuestionBody} key=${seen.hash} question=${seen} onWhole=${onWhole} isOver=${isOver} />`
  return html`
    <p class="back"><a href=${to("questions")}>All questions</a></p>
    ${
    read._tag === "Reading"
      ? html`<h2 tabindex="-1" data-heading>Question</h2><p>Loading …</p>`
      : read._tag === "Failed"
      ? html`<h2 tabindex="-1" data-heading>Question</h2><${Failure} problem=${read.problem} onAgain=${again} />`
      : read._tag === "Ended"
      ? html`<${Ended} question=${read.question} />${
        seen === undefined ? null : html`<details><summary>What was asked</summary>${body(true)}</details>`
      }`
      : html`
        <h2 tabindex="-1" data-heading><${SafeText} text=${read.question.tool} /></h2>
        <p><${Deadline} expiresAt=${read.question.expiresAt} /></p>
        ${body(false)}
        <${AnswerForm} key=${read.question.hash} question=${read.question} isWhole=${
        whole === read.question.hash
      } onStale=${again} />`
  }`
}

// Utilities

const Ended = ({ question }: { readonly question: EndedQuestion }): VNode => {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    // what had the focus is gone: a button of the answer; of whoever is elsewhere nothing is taken
    if (document.activeElement === document.body) heading.current?.focus()
  }, [])
  const user = me.value
  const isOther = question.by !== undefined && typeof user === "object" && question.by !== user.name
  const [next] = known.value.open
  return html`
    <h2 tabindex="-1" data-heading ref=${heading}><${SafeText} text=${question.tool} />: ${ending(question)}</h2>
    <p>${time(question.endedAt)}${
    question.by === undefined
      ? null
      : html`, by <strong><${SafeText} text=${question.by} /></strong>${isOther ? ", who was first" : ""}`
  }.</p>
    ${question.reason === undefined ? null : html`<p>Reason: <${SafeText} text=${question.reason} /></p>`}
    <p>${question.next}</p>
    ${
    next === undefined
      ? html`<p>Nothing else waits.</p>`
      : html`<p><a class="button" href=${to("questions", next.id)}>Next question</a> ${
        count(known.value.open.length, "waits", "wait")
      }.</p>`
  }`
}
