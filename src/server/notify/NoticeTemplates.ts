/**
 * Bodies of notifications about approval requests, for Slack, Microsoft Teams and services that send e-mail.
 *
 * A notification names the tool and the user, and links to the request. It has no arguments: those are for approvers
 * alone. Pure.
 */
import * as DateTime from "effect/DateTime"
import { escape } from "../../internal/escape.ts"
import { html } from "../../internal/htmlText.ts"

/** What a notification says of a request. */
export interface Notice {
  readonly id: string
  readonly user: string
  readonly session: string
  readonly tool: string
  /** Epoch milliseconds. */
  readonly requestedAt: number
  /** Epoch milliseconds. */
  readonly expiresAt: number | "unlimited"
  /** Who can approve, if the request says so. */
  readonly who?: string | undefined
  /** The request on the page. */
  readonly url: string
  /** For each person a link that answers as this person. */
  readonly links?: ReadonlyArray<{ readonly person: string; readonly url: string }> | undefined
  /** Why it is sent: the request is new, still pending, or now for other people as well. */
  readonly kind: "asked" | "reminded" | "escalated"
  /** When that was, in epoch milliseconds. */
  readonly at: number
}

/** The body of a Standard Webhook. */
export const standard = ({ at, kind, ...data }: Notice) => ({
  type: `approval.${kind}`,
  timestamp: timeOf(at),
  data
})

/** The body of a Slack message, for an incoming webhook: Block Kit, with a text for notifications. */
export const slack = (notice: Notice) => {
  // Slack allows 3,000 characters
  const text = clip(sentenceOf(notice), 2_900)
  return {
    text: mrkdwn(clip(text, 550)),
    // links of people must not be fetched for previews
    unfurl_links: false,
    unfurl_media: false,
    blocks: [
      { type: "section", text: { type: "plain_text", text, emoji: false } },
      { type: "context", elements: [{ type: "plain_text", text: clip(detailOf(notice), 1_900), emoji: false }] },
      {
        type: "actions",
        // Slack allows 25, with 3,000 characters each
        elements: linksOf(notice, 25).filter((it) => it.url.length <= 3_000).map(({ label, url }) => ({
          type: "button",
          text: { type: "plain_text", text: clip(label, 75), emoji: false },
          url
        }))
      }
    ]
  }
}

/** The body of a Teams message, for a webhook of Workflows: an Adaptive Card. */
export const teams = (notice: Notice) => ({
  type: "message",
  attachments: [{
    contentType: "application/vnd.microsoft.card.adaptive",
    contentUrl: null,
    content: {
      $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
      type: "AdaptiveCard",
      version: "1.4",
      body: [
        { type: "TextBlock", text: markdown(clip(sentenceOf(notice), 2_900)), wrap: true, weight: "Bolder" },
        { type: "TextBlock", text: markdown(clip(detailOf(notice), 1_900)), wrap: true, isSubtle: true }
      ],
      // Teams shows six
      actions: linksOf(notice, 6).map(({ label, url }) => ({ type: "Action.OpenUrl", title: clip(label, 75), url }))
    }
  }]
})

/** An e-mail: subject, text and HTML. */
export const email = (notice: Notice) => {
  const links = linksOf(notice, 25)
  const [sentence, detail] = [sentenceOf(notice), detailOf(notice)]
  return {
    subject: clip(titleOf(notice), 200),
    text: [sentence, detail, ...links.map(({ label, url }) => `${label}: ${url}`)].join("\n\n"),
    html: [
      "<!doctype html>",
      `<p><strong>${html(sentence)}</strong></p>`,
      `<p>${html(detail)}</p>`,
      ...links.map(({ label, url }) => `<p><a href="${html(url)}">${html(label)}</a></p>`)
    ].join("\n")
  }
}

/** The bodies, by format. */
export const bodies = { standard, slack, teams, email } as const satisfies Readonly<
  Record<string, (notice: Notice) => unknown>
>

const titleOf = ({ kind, tool, user }: Notice): string => {
  const what = `${escape(tool)} for ${escape(user)}`
  switch (kind) {
    case "asked":
      return `Approval requested: ${what}`
    case "reminded":
      return `Approval still pending: ${what}`
    case "escalated":
      return `Approval escalated to you: ${what}`
  }
}

const sentenceOf = (notice: Notice): string => {
  const { kind, tool, user } = notice
  const call = `the call of ${escape(tool)} by ${escape(user)}`
  switch (kind) {
    case "asked":
      return `Please approve or deny ${call}.`
    case "reminded":
      return `Still pending: please approve or deny ${call}.`
    case "escalated":
      return `Nobody has answered yet: please approve or deny ${call}.`
  }
}

const detailOf = ({ expiresAt, links = [], session, who }: Notice): string =>
  [
    `Session ${escape(session)}.`,
    ...(who === undefined ? [] : [escape(who)]),
    expiresAt === "unlimited" ? "The request does not expire." : `It expires at ${timeOf(expiresAt)}.`,
    ...(links.length === 0
      ? []
      : ["A link with a name answers as this person, without a login. Opening it changes nothing."])
  ].join(" ")

/** The time of a notice; a clock that is off must not stop it. */
const timeOf = (millis: number): string => {
  const time = DateTime.make(millis)
  return time._tag === "Some" ? DateTime.formatIso(time.value) : "an unknown time"
}

const linksOf = ({ links = [], url }: Notice, most: number): ReadonlyArray<{ label: string; url: string }> => [
  ...links.slice(0, most - 1).map((it) => ({ label: `Review as ${escape(it.person)}`, url: it.url })),
  { label: "Open the page", url }
]

const clip = (text: string, most: number): string => text.length <= most ? text : `${text.slice(0, most - 1)}…`

/** Without mentions and links; emphasis does no harm. */
const mrkdwn = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")

const markdown = (text: string): string => text.replaceAll(/[\\`*_[\]()#+\-!<>|~]/g, "\\$&")
