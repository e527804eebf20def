/** What a URL is about, for a policy. */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as FetchTarget from "../../../src/tools/fetch/FetchTarget.ts"

const withoutWider = (url: string) => FetchTarget.targets({ url }).map(({ wider: _, ...it }) => it)

describe("the target of a URL", () => {
  for (
    const [url, text] of [
      ["https://api.example.com", "api.example.com"],
      ["https://api.example.com/a/b?c=d#e", "api.example.com"],
      ["HTTPS://API.Example.COM", "api.example.com"],
      ["https://api.example.com.", "api.example.com"],
      ["https://api.example.com:443", "api.example.com"],
      ["http://api.example.com:80", "api.example.com"],
      ["https://api.example.com.:8443/x", "api.example.com:8443"],
      ["http://api.example.com:443", "api.example.com:443"],
      ["https://api.example.com:80", "api.example.com:80"],
      ["https://api.example.com:0443", "api.example.com"],
      ["https://EXÄMPLE.com", "xn--exmple-cua.com"],
      ["https://xn--exmple-cua.com", "xn--exmple-cua.com"],
      ["https://ⓔxample.com", "example.com"],
      ["https://exam\u00adple.com", "example.com"],
      ["https://example。com", "example.com"],
      ["https://%65xample.com", "example.com"],
      ["  https://example.com\n", "example.com"],
      ["https://exa\tmple.com", "example.com"],
      ["https:\\\\example.com\\@evil.com", "example.com"],
      ["https://example.com/@evil.com", "example.com"],
      ["https://example.com?@evil.com", "example.com"],
      ["https://example.com#@evil.com", "example.com"],
      ["https://under_score.example.com", "under_score.example.com"],
      ["http://2130706433", "127.0.0.1"],
      ["http://0x7f.1:8080", "127.0.0.1:8080"],
      ["http://[0:0:0:0:0:0:0:1]", "[::1]"],
      ["http://[::FFFF:127.0.0.1]:81", "[::ffff:7f00:1]:81"]
    ] as const
  ) {
    it(`is ${text} of ${JSON.stringify(url)}`, () => {
      assert.deepStrictEqual(withoutWider(url), [{ text }])
    })
  }

  it("is no host where the URL cannot be fetched: only a pattern for the whole tool allows it", () => {
    for (
      const url of [
        "api.example.com",
        "//api.example.com",
        "ftp://api.example.com",
        "https://user@api.example.com",
        "https://api.example.com:0",
        "https://*.example.com",
        "https://a..b",
        `https://example.com/${"a".repeat(8_000)}`,
        ""
      ]
    ) {
      const [target] = FetchTarget.targets({ url })
      assert.strictEqual(target?.kind, "exact", url)
      assert.match(target?.text ?? "", /^URL "/)
      assert.isBelow(target?.text.length ?? 0, 400)
    }
  })

  it.prop("is of the same form for whatever parses, and the same again", [
    Schema.Array(
      Schema.Literals([
        "http",
        "https",
        ":",
        "/",
        "\\",
        "@",
        ".",
        "[",
        "]",
        "a",
        "Ä",
        "1",
        "0x7f",
        "%31",
        "#",
        "?",
        "*",
        "。",
        "\t",
        "(",
        ")"
      ])
    )
  ], ([parts]) => {
    for (const url of [parts.join(""), `http://${parts.join("")}`]) {
      const parsed = FetchTarget.parse(url)
      if (Result.isFailure(parsed)) continue
      const { host, hostname, url: it } = parsed.success
      assert.match(host, /^(?:[a-z0-9_.-]+|\[[0-9a-f:]+\])(?::[1-9]\d*)?$/)
      assert.notMatch(hostname, /[[\]]|\.$/)
      assert.deepStrictEqual(withoutWider(it.href), [{ text: host }])
      assert.strictEqual(it.username + it.password, "")
    }
  }, { arbitrary: { runs: 2_000 } })
})
