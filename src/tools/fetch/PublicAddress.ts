/**
 * Which addresses are public, and which others a host allows.
 *
 * Everything that is not known to be public is not: private, loopback, link-local, shared (CGNAT), multicast, reserved
 * and documentation ranges, and IPv6 addresses that stand for IPv4 ones (mapped, translated, 6to4, Teredo).
 */
import * as Result from "effect/Result"
import { BlockList, isIP } from "node:net"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"
import * as FetchTarget from "./FetchTarget.ts"

/** Tells whether an address is public; a text that is not an address is not. */
export const isPublic = (address: string): boolean =>
  isIP(address) === 4 ? !special(address) : unicast(address) && !special(address)

/** Tells whether a host, given by a name or an address, may be reached at an address. */
export type Reach = (hostname: string, address: string) => boolean

/** Makes the predicate that accepts public addresses and the allowed private ones. */
export const reach = (allowPrivate: ReadonlyArray<string>): Result.Result<Reach, ReadonlyArray<Problem>> => {
  const entries = allowPrivate.map(parseEntry)
  const problems = entries.flatMap((it, index): ReadonlyArray<Problem> =>
    it === undefined
      ? [{
        path: `allowPrivate[${index}]`,
        problem: `it is ${JSON.stringify(allowPrivate[index])}`,
        expected: "a host such as \"localhost\", an address, or a range such as \"10.0.0.0/8\""
      }]
      : []
  )
  if (problems.length > 0) return Result.fail(problems)
  const names = new Set(entries.flatMap((it) => typeof it === "string" ? [it] : []))
  const allowed = within(entries.flatMap((it) => typeof it === "object" ? [it] : []))
  return Result.succeed((hostname, address) =>
    isPublic(address) || allowed(address) || (isIP(address) !== 0 && names.has(hostname))
  )
}

type Range = readonly [start: string, bits: number]

const within = (ranges: ReadonlyArray<Range>): (address: string) => boolean => {
  // apart: one list takes every IPv4 address for the IPv6 one that stands for it
  const lists = { 4: new BlockList(), 6: new BlockList() }
  for (const [start, bits] of ranges) {
    if (isIP(start) === 4) lists[4].addSubnet(start, bits, "ipv4")
    else lists[6].addSubnet(start, bits, "ipv6")
  }
  return (address) => {
    const family = isIP(address)
    return family === 4 ? lists[4].check(address, "ipv4") : family === 6 && lists[6].check(address, "ipv6")
  }
}

/** All that is in use of IPv6 for hosts that everybody can reach; what stands for IPv4 lies outside, but for two. */
const unicast = within([["2000::", 3]])

/** The special-purpose registries of IANA, where an address is not globally reachable or stands for another. */
const special = within([
  ["0.0.0.0", 8], // this network
  ["10.0.0.0", 8],
  ["100.64.0.0", 10], // shared, behind the NAT of a carrier
  ["127.0.0.0", 8],
  ["168.63.129.16", 32], // not in the registries: services for the machine itself on Azure
  ["169.254.0.0", 16], // link-local, among them the metadata of clouds
  ["172.16.0.0", 12],
  ["192.0.0.0", 24], // protocol assignments
  ["192.0.2.0", 24], // documentation
  ["192.88.99.0", 24], // relays of 6to4
  ["192.168.0.0", 16],
  ["198.18.0.0", 15], // benchmarks
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4], // multicast
  ["240.0.0.0", 4], // reserved, and broadcast
  ["2001::", 23], // protocol assignments, among them Teredo
  ["2001:db8::", 32], // documentation
  ["2002::", 16], // 6to4
  ["3fff::", 20] // documentation
])

/** A name, or a range. */
const parseEntry = (text: string): string | Range | undefined => {
  const [, start = "", bits = ""] = /^([^/]*)\/(\d{1,3})$/.exec(text) ?? [text, text, ""]
  const most = { 0: -1, 4: 32, 6: 128 }[isIP(start)] ?? -1
  if (most !== -1) return bits === "" ? [start, most] : Number(bits) <= most ? [start, Number(bits)] : undefined
  return Result.match(FetchTarget.parse(`http://${text}`), {
    onFailure: () => undefined,
    onSuccess: ({ hostname, url }) =>
      url.href === `http://${hostname}/` && isIP(hostname) === 0 && !/[:/]/.test(text) ? hostname : undefined
  })
}
