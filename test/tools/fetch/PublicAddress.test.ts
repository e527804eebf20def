/** Which addresses are public. */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isPublic, reach } from "../../../src/tools/fetch/PublicAddress.ts"

const allowing = (...entries: ReadonlyArray<string>) => Result.getOrThrow(reach(entries))

const byte = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 }))
const group = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 0xffff }))
const bytes: [typeof byte, typeof byte, typeof byte, typeof byte] = [byte, byte, byte, byte]
const groups = Schema.Array(group).check(Schema.isMinLength(8), Schema.isMaxLength(8))

const v6 = (parts: ReadonlyArray<number>): string => parts.map((it) => it.toString(16)).join(":")

/** The reserved parts of IPv4, said once more, by numbers. */
const isReserved = ([a, b, c, d]: readonly [a: number, b: number, c: number, d: number]): boolean =>
  a === 0 || a === 10 || a === 127 || a >= 224 ||
  (a === 100 && b >= 64 && b < 128) ||
  (a === 169 && b === 254) ||
  (a === 172 && b >= 16 && b < 32) ||
  (a === 192 && b === 168) ||
  (a === 192 && b === 0 && (c === 0 || c === 2)) ||
  (a === 192 && b === 88 && c === 99) ||
  (a === 198 && (b === 18 || b === 19)) ||
  (a === 198 && b === 51 && c === 100) ||
  (a === 203 && b === 0 && c === 113) ||
  (a === 168 && b === 63 && c === 129 && d === 16)

/** First and last address of what is not public, and their neighbours that are. */
const edges: ReadonlyArray<readonly [first: string, last: string, ...publics: ReadonlyArray<string>]> = [
  ["0.0.0.0", "0.255.255.255", "1.0.0.0"],
  ["10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"],
  ["100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"],
  ["127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"],
  ["168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"],
  ["169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"],
  ["172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"],
  ["192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"],
  ["192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"],
  ["192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"],
  ["192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"],
  ["198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"],
  ["198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"],
  ["203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"],
  ["224.0.0.0", "255.255.255.255", "223.255.255.255"],
  ["::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"],
  ["2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"],
  ["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff::", "2001:db9::"],
  ["2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff:ffff::", "2003::"],
  ["3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff:ffff::", "3fff:1000::"],
  ["4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]
]

describe("an address is public", () => {
  for (const [first, last, ...publics] of edges) {
    it(`but not from ${first} to ${last}`, () => {
      assert.deepStrictEqual([first, last].filter(isPublic), [])
      assert.deepStrictEqual(publics.filter((it) => !isPublic(it)), [])
    })
  }

  it("but not where it stands for another, loops back, is local, or is none", () => {
    for (
      const address of [
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:8.8.8.8",
        "::8.8.8.8",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::1",
        "2002:808:808::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "100::1",
        "2001:db8::1%eth0",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.0.192",
        "",
        "localhost",
        "1.1.1",
        "01.1.1.1",
        "1.1.1.1 ",
        "[2606:4700::1111]",
        "8.8.8.8/32"
      ]
    ) assert.isFalse(isPublic(address), address)
    for (const address of ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "2a00:1450::200e", "2001:4860:4860::8888"]) {
      assert.isTrue(isPublic(address), address)
    }
  })

  it.prop("in IPv4 outside the reserved ranges, and only there", bytes, (parts) => {
    assert.strictEqual(
      isPublic(parts.join(".")),
      !isReserved(parts)
    )
  }, { arbitrary: { runs: 2_000 } })

  it.prop("in no form that holds an IPv4 address, whichever that is", bytes, ([a, b, c, d]) => {
    const hex = v6([a * 256 + b, c * 256 + d])
    for (
      const form of [
        `::ffff:${hex}`,
        `::${hex}`,
        `64:ff9b::${hex}`,
        `64:ff9b:1::${hex}`,
        `2002:${hex}::1`,
        `2001::${hex}`
      ]
    ) {
      assert.isFalse(isPublic(form), form)
    }
  })

  it.prop("in IPv6 in 2000::/3 at most, however it is spelt", [groups], ([parts]) => {
    const found = isPublic(v6(parts))
    const padded = parts.map((it) => it.toString(16).padStart(4, "0")).join(":")
    assert.strictEqual(isPublic(padded), found)
    assert.strictEqual(isPublic(padded.toUpperCase()), found)
    assert.strictEqual(isPublic(`${padded}%1`), found)
    const first = parts[0]!
    if (first < 0x2000 || first > 0x3fff) assert.isFalse(found)
    if ((first > 0x2002 && first < 0x3fff) || first === 0x2000) assert.isTrue(found)
  }, { arbitrary: { runs: 1_000 } })
})

describe("a host may be reached", () => {
  it("at public addresses, without being allowed", () => {
    const may = allowing()
    assert.isTrue(may("example.com", "8.8.8.8"))
    assert.isFalse(may("localhost", "127.0.0.1"))
  })

  it("at an address or range that is allowed, by any name", () => {
    const may = allowing("10.1.0.0/16", "127.0.0.1", "fd00::/8", "::1")
    for (const address of ["10.1.0.0", "10.1.255.255", "127.0.0.1", "fdff::1", "::1", "8.8.8.8"]) {
      assert.isTrue(may("any", address), address)
    }
    for (
      const address of [
        "10.0.255.255",
        "10.2.0.0",
        "127.0.0.2",
        "fc00::1",
        "::2",
        "::ffff:127.0.0.1",
        "::ffff:10.1.0.1"
      ]
    ) {
      assert.isFalse(may("any", address), address)
    }
  })

  it("by a name that is allowed, at any address, but at nothing that is none", () => {
    const may = allowing("LOCALHOST", "intranet.Exämple.com.")
    assert.isTrue(may("localhost", "127.0.0.1"))
    assert.isTrue(may("localhost", "::1"))
    assert.isTrue(may("intranet.xn--exmple-cua.com", "10.0.0.1"))
    assert.isFalse(may("sub.localhost", "127.0.0.1"))
    assert.isFalse(may("localhost", "nonsense"))
  })

  it("at every IPv4 or IPv6 address, if somebody wants that", () => {
    const may = allowing("0.0.0.0/0", "::/0")
    for (const address of ["127.0.0.1", "255.255.255.255", "::", "::ffff:127.0.0.1"]) assert.isTrue(may("x", address))
    assert.isFalse(allowing("0.0.0.0/0")("x", "::1"))
    assert.isFalse(allowing("::ffff:0:0/96")("x", "10.0.0.1"))
  })

  it.prop("in a range from its first bit that is fixed on, and not beside it", [
    ...bytes,
    Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 32 }))
  ], ([a, b, c, d, bits]) => {
    const number = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0
    const text = (it: number) => [it >>> 24, (it >>> 16) & 255, (it >>> 8) & 255, it & 255].join(".")
    const may = allowing(`${text(number)}/${bits}`)
    assert.isTrue(may("x", text(number)))
    // the last bit that is fixed turned over
    const beside = text((number ^ (2 ** (32 - bits))) >>> 0)
    assert.strictEqual(may("x", beside), isPublic(beside))
  }, { arbitrary: { runs: 500 } })

  it("only if what is allowed says what it is", () => {
    const wrong = [
      "",
      "10.0.0.0/33",
      "10.0.0.0/",
      "10.0.0/8",
      "127.1",
      "::1/129",
      "[::1]",
      "localhost:3000",
      "localhost:80",
      "localhost/",
      "localhost?x",
      "localhost#x",
      "localhost\\x",
      "http://localhost",
      "user@localhost",
      "*.local",
      "a b",
      "a..b",
      "0x7f000001"
    ]
    const problems = Result.getOrThrow(Result.flip(reach(["localhost", ...wrong])))
    assert.deepStrictEqual(problems.map((it) => it.path), wrong.map((_, index) => `allowPrivate[${index + 1}]`))
    assert.include(problems[1]?.problem, "10.0.0.0/33")
    assert.include(problems[1]?.expected, "\"10.0.0.0/8\"")
  })
})
