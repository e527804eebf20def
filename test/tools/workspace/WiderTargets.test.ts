import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { matches } from "../../../src/internal/wildcard.ts"
import { commands, domains, folders } from "../../../src/tools/workspace/WiderTargets.ts"

describe("wider targets", () => {
  it("are the folders of a path, the narrowest first", () => {
    assert.deepStrictEqual(folders("src/deep/er/a.ts"), ["src/deep/er/*", "src/deep/*", "src/*"])
    assert.deepStrictEqual(folders("a.ts"), [])
    assert.deepStrictEqual(folders("/etc/hosts"), [])
    assert.deepStrictEqual(folders("../other/a.ts"), [])
    assert.deepStrictEqual(folders("src/w*d/a.ts"), ["src/*"])
  })

  it("are the domain of a host, and never a suffix under which anybody may have a name", () => {
    assert.deepStrictEqual(domains("api.example.com"), ["*.example.com"])
    assert.deepStrictEqual(domains("a.api.example.com:8080"), ["*.api.example.com:8080"])
    assert.deepStrictEqual(domains("api.example.co.uk"), ["*.example.co.uk"])
    assert.deepStrictEqual(domains("api.example.internal"), ["*.example.internal"])
    assert.deepStrictEqual(domains("api.my_host.example.com"), ["*.my_host.example.com"])
    for (
      const host of [
        "example.com",
        "localhost:3000",
        "10.0.0.1",
        "[::1]",
        "example.co.uk",
        "ada.github.io",
        "x.s3.amazonaws.com",
        "b.com.au",
        // of the Public Suffix List
        "shop.myshopify.com",
        "me.duckdns.org",
        "foo.k12.ca.us",
        "a.b.kawasaki.jp",
        "x.blob.core.windows.net",
        "x.github.dev",
        "x.sharepoint.com",
        // no name of a host
        "a..example.com",
        `${"a.".repeat(200)}example.com`
      ]
    ) assert.deepStrictEqual(domains(host), [], host)
  })

  it("are the beginnings of a command, and none where the arguments say what runs", () => {
    const of = (line: string) => commands(line.split(" "))
    assert.deepStrictEqual(of("npm test -- a.ts"), ["npm test -- *", "npm test *"])
    assert.deepStrictEqual(of("npm test"), ["npm test *"])
    assert.deepStrictEqual(of("git commit -m x"), ["git commit -m *", "git commit *"])
    for (
      const line of ["ls", "ls -l", "node x.js", "python3 m", "sh -c ls", "npm exec x", "./run it", "git -c a=b status"]
    ) {
      assert.deepStrictEqual(of(line), [], line)
    }
  })

  const word = Schema.Literals(["a", "b1", "..", "x*", "?", "-c", "", "sh", "npm"])
  const words = Schema.Array(word).check(Schema.isMinLength(1), Schema.isMaxLength(5))

  it.prop("have one wildcard, at an end, and stay with the beginning that they were made from", [words], ([parts]) => {
    for (const pattern of [...folders(parts.join("/")), ...commands(parts)]) {
      assert.match(pattern, /^[^*?]*\*$/)
      const separator = pattern.at(-2)!
      assert.isTrue(parts.join(separator).startsWith(pattern.slice(0, -2)))
    }
    for (const path of folders(parts.join("/"))) assert.isTrue(matches(path, parts.join("/")))
  })
})
