/** Bodies of notifications: what they say, what hostile names become, and the limits of the services. */
import { assert, describe, it } from "@effect/vitest"
import * as NoticeTemplates from "../../../src/server/notify/NoticeTemplates.ts"

const notice: NoticeTemplates.Notice = {
  id: "1",
  user: "ada",
  session: "home",
  tool: "refund",
  requestedAt: 1_700_000_000_000,
  expiresAt: 1_700_000_600_000,
  who: "It needs 1 person of: bob.",
  url: "https://tools.example.com/#/approvals/1",
  links: [{ person: "bob", url: "https://tools.example.com/links/a.b" }],
  kind: "asked",
  at: 1_700_000_000_000
}

const hostile: NoticeTemplates.Notice = {
  ...notice,
  tool: "<!channel> *pay* <https://evil.example|ok>\u202E\n`x`",
  user: "[a](https://evil.example) \"><img src=x onerror=alert(1)>",
  session: "<@U1> & co"
}

const slackLinks = (body: ReturnType<typeof NoticeTemplates.slack>) => {
  const last = body.blocks.at(-1) as { readonly elements: ReadonlyArray<{ readonly url: string }> }
  return last.elements.map(({ url }) => url)
}

const teamsCard = (body: ReturnType<typeof NoticeTemplates.teams>) => body.attachments[0]!.content

describe("a notification", () => {
  it("names the call, its time limit, who approves, and a link for each person", () => {
    for (const [name, make] of Object.entries(NoticeTemplates.bodies)) {
      const text = JSON.stringify(make(notice))
      for (const words of ["refund", "ada", "home", "links/a.b", "#/approvals/1", "It needs 1 person of: bob"]) {
        assert.include(name === "teams" ? text.replaceAll("\\\\", "") : text, words, name)
      }
    }
    assert.deepStrictEqual(NoticeTemplates.standard(notice).type, "approval.asked")
    assert.strictEqual(NoticeTemplates.email(notice).subject, "Approval requested: refund for ada")
  })

  it("says why it is sent", () => {
    const subjects = (["asked", "reminded", "escalated"] as const).map((kind) =>
      NoticeTemplates.email({ ...notice, kind }).subject.replace(/:.*/, "")
    )
    assert.deepStrictEqual(subjects, ["Approval requested", "Approval still pending", "Approval escalated to you"])
  })

  it("has no markup of hostile names", () => {
    const { blocks, text: slack } = NoticeTemplates.slack(hostile)
    assert.notMatch(slack, /[<>]/)
    assert.notMatch(JSON.stringify(blocks), /mrkdwn|\u202E/)
    const [title] = teamsCard(NoticeTemplates.teams(hostile)).body
    assert.notMatch(title!.text, /(?<!\\)[[\]<>*`]/)
    const { html, subject, text } = NoticeTemplates.email(hostile)
    assert.notMatch(html, /<img|<@|<!ch/)
    assert.include(html, "&lt;img")
    for (const shown of [html, subject, text, slack]) assert.notMatch(shown, /\u202E/)
    assert.notMatch(subject, /[\r\n]/)
  })

  it("keeps within the limits of Slack and Teams, with a link to the page in any case", () => {
    const many = Array.from({ length: 40 }, (_, at) => ({ person: `p${at}`, url: `https://x.example/links/${at}` }))
    const long = { ...notice, tool: "&".repeat(5_000), session: "s".repeat(5_000), links: many }
    const slack = NoticeTemplates.slack(long)
    const [section] = slack.blocks as ReadonlyArray<{ readonly text?: { readonly text: string } }>
    assert.isAtMost(section!.text!.text.length, 3_000)
    assert.strictEqual(slackLinks(slack).length, 25)
    assert.strictEqual(slackLinks(slack).at(-1), notice.url)
    const card = teamsCard(NoticeTemplates.teams(long))
    assert.strictEqual(card.actions.length, 6)
    assert.strictEqual(card.actions.at(-1)!.url, notice.url)
    assert.isBelow(JSON.stringify(NoticeTemplates.teams(long)).length, 28_000)
    const tooLong = { ...notice, links: [{ person: "bob", url: `https://x.example/${"y".repeat(4_000)}` }] }
    assert.deepStrictEqual(slackLinks(NoticeTemplates.slack(tooLong)), [notice.url])
  })
})
