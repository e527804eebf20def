/**
 * Chooses the seeds that random tests try.
 *
 * `npm test` tries every tenth seed of each test and one fresh seed, which it prints;
 * `SEED=7 npm test` replays it. `npm run test:all` tries every seed, and `--mode rest`
 * those that `npm test` left out.
 */
import * as Arbitrary from "effect/Arbitrary"

/** Which of its seeds a random test tries. */
export const share = (process.env["SEEDS"] ?? "all") as "tenth" | "rest" | "all"

const fresh = Number(process.env["SEED"] ?? 1)

/** Gives the seeds for a test that has so many: from 0, and the fresh one of this run. */
export const seeds = (count: number): ReadonlyArray<number> => {
  const all = Array.from({ length: count }, (_, seed) => seed)
  switch (share) {
    case "all":
      return [...all, fresh]
    case "rest":
      return all.filter((seed) => seed % 10 !== 0)
    case "tenth":
      return [...all.filter((seed) => seed % 10 === 0), fresh]
  }
}

/** Chooses among cases that would take long together: every tenth, and one that the fresh seed picks. */
export const sample = <A>(cases: ReadonlyArray<A>): ReadonlyArray<A> =>
  cases.length === 0 ? cases : Array.from(new Set(seeds(cases.length).map((seed) => cases[seed % cases.length]!)))

/** Chooses one of a few ways to do the same, by the fresh seed; all of them if every seed is tried. */
export const either = <A>(ways: ReadonlyArray<A>): ReadonlyArray<A> =>
  share === "tenth" ? [ways[fresh % ways.length]!] : ways

/** The steps that a test of every step tries: each, or every tenth from one that the fresh seed picks. */
export const everyStep = share === "tenth" ? { first: 1 + fresh % 10, next: 10 } : { first: 1, next: 1 }

/** How long a random test may take, in milliseconds: with every seed on a busy machine. */
export const timeout = 300_000

/** How often a property that takes long is tried: a tenth of the given runs, or all. */
export const runs = (all: number): number => share === "tenth" ? Math.ceil(all / 10) : all

/** Has the properties of `it.prop` use the fresh seed of this run. */
export const seedProperties = (): void => Arbitrary.configureGlobal({ check: { seed: fresh } })
