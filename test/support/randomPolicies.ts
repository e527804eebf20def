/** Random policies in tiers and random calls, over few letters, so that patterns meet. */
import type * as Clause from "../../src/core/gates/Clause.ts"
import type { Target } from "../../src/core/gates/PermissionPattern.ts"
import type * as Policy from "../../src/core/gates/Policy.ts"
import type { Subject } from "../../src/core/gates/ToolPolicy.ts"
import type { SeededRandom as Random } from "../../src/testing/SeededRandom.ts"

const many = <A>(random: Random, most: number, make: () => A): ReadonlyArray<A> =>
  Array.from({ length: random.int(most + 1) }, make)

const text = (random: Random, letters: string, most: number): string =>
  Array.from({ length: 1 + random.int(most) }, () => random.pick(Array.from(letters))).join("")

const roles = ["ops", "dev"] as const

const whens: ReadonlyArray<(random: Random) => NonNullable<Clause.Clause["when"]>> = [
  (random) => ({ n: { gt: random.int(3) } }),
  (random) => ({ n: { lte: random.int(3), gte: 0 } }),
  (random) => ({ n: random.pick([1, 2]) }),
  (random) => ({ "o.s": { like: text(random, "ab*", 2) } }),
  (random) => ({ "o.s": { in: ["a", "b"] }, n: { exists: random.pick([true, false]) } }),
  () => ({ "o.s": { ne: "a" } }),
  () => ({ o: { exists: true } }),
  () => ({ b: true })
]

const entry = (random: Random): Clause.Entry => {
  const tool = random.pick(["w", "w", "r", "x", "*", "?", "w*"])
  const target = random.int(4) === 0 ? undefined : text(random, "aab/*?", 3)
  if (random.int(3) > 0) return target === undefined ? tool : `${tool}(${target})`
  return {
    tool,
    ...(target === undefined ? {} : { target }),
    ...(random.int(2) === 0 ? {} : { when: random.pick(whens)(random) }),
    ...(random.int(3) === 0 ? { roles: [random.pick(roles)] } : {})
  }
}

export const policy = (random: Random): Policy.Policy => {
  const entries = (most: number) => many(random, most, () => entry(random))
  return {
    ...(random.int(3) === 0 ? {} : { default: random.pick(["allow", "ask", "deny", "cautious", "readOnly"]) }),
    ...(random.int(3) === 0
      ? { mode: random.pick(["ask", "acceptEdits", "readOnly", "offline", "plan", "denyAll"]) }
      : {}),
    allow: entries(3),
    ask: entries(2),
    deny: entries(2),
    ...(random.int(3) === 0 ? { askAlways: entries(2) } : {}),
    ...(random.int(4) === 0 ? { skipApproval: [random.pick(["w", "r", "x"])] } : {}),
    ...(random.int(4) === 0 ? { sandboxed: "allow" } : {}),
    ...(random.int(4) === 0 ? { review: { allow: entries(2), deny: entries(1) } } : {}),
    ...(random.int(5) === 0 ? { lock: true } : {})
  }
}

export const tiers = (random: Random): ReadonlyArray<Policy.Tier> =>
  Array.from({ length: 1 + random.int(2) }, (_, index) => ({ name: `tier${index}`, policy: policy(random) }))

/** A policy and one that differs from it in little, or in all. */
export const pair = (random: Random): readonly [ReadonlyArray<Policy.Tier>, ReadonlyArray<Policy.Tier>] => {
  const one = tiers(random)
  if (random.int(2) === 0) return [one, tiers(random)]
  const key = random.pick(["allow", "ask", "deny", "default", "mode", "askAlways", "review"] as const)
  const other = policy(random)
  const [first, ...rest] = one
  return [one, [{ ...first!, policy: { ...first!.policy, [key]: other[key] } as Policy.Policy }, ...rest]]
}

export const tool = (random: Random): Subject => {
  const readOnly = random.int(2) === 0
  return {
    name: random.pick(["w", "r", "x"]),
    readOnly,
    openWorld: random.int(2) === 0,
    edits: !readOnly && random.int(2) === 0,
    guardsTargets: random.int(2) === 0,
    declaresTargets: true,
    needsApproval: random.pick([undefined, true, () => true]),
    actsAs: random.int(3) === 0 ? ["r"] : []
  }
}

const target = (random: Random): Target => ({
  text: text(random, "ab/", 3),
  ...random.pick(
    [{}, {}, {}, { kind: "exact" }, { kind: "protected" }, { kind: "always" }, { kind: "host" }, {
      runBy: "x"
    }] as const
  ),
  ...(random.int(3) === 0 ? { spellings: many(random, 2, () => text(random, "ab/", 3)) } : {})
})

/** What a policy is given of a random call of a tool. */
export const call = (random: Random, { needsApproval }: Subject) => ({
  args: random.pick<unknown>([
    {},
    { n: random.int(4) },
    { n: "1", b: true },
    { n: 1, o: { s: text(random, "ab", 2) } },
    { o: { s: 3 }, b: false },
    { o: null, n: random.int(4) }
  ]),
  targets: random.int(10) === 0
    ? undefined
    : Array.from({ length: random.pick([0, 1, 1, 1, 2, 2, 3, 4]) }, () => target(random)),
  needsApproval: needsApproval === undefined ? false : needsApproval === true ? true : random.int(2) === 0,
  roles: random.pick<ReadonlyArray<string> | undefined>([undefined, [], ["ops"], ["dev"], ["ops", "dev"], ["other"]]),
  sandbox: random.pick(
    [
      undefined,
      undefined,
      { _tag: "Confined", driver: "any", network: "none", holds: [], missing: [] },
      { _tag: "Confined", driver: "any", network: "open", holds: [], missing: [] }
    ] as const
  )
})
