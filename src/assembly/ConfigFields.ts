/** What files say of an executor: the fields that config files of several commands and scenarios have in common. */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Policy from "../core/gates/Policy.ts"
import { ToolRule } from "../core/rules/ToolRule.ts"
import * as Provenance from "../provenance/Provenance.ts"

const optional = Schema.optionalKey

/** A length of time in words. */
export const Span = Schema.String.check(
  Schema.makeFilter(
    (text) => Option.exists(Duration.fromInput(text as Duration.Input), (it) => Duration.toMillis(it) > 0),
    { expected: "a duration above zero, such as \"30 seconds\"" }
  )
).annotate({ description: "A duration such as \"30 seconds\" or \"5 minutes\"" })

/** A length of time in words, which may be zero. */
export const SpanOrNone = Schema.String.check(
  Schema.makeFilter((text) => Option.isSome(Duration.fromInput(text as Duration.Input)), {
    expected: "a duration such as \"50 millis\" or \"5 minutes\""
  })
).annotate({ description: "A duration such as \"50 millis\" or \"5 minutes\"" })

/** A whole number of 1 or more. */
export const AtLeastOne = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

const Chars = Schema.Union([AtLeastOne, Schema.Literal("unbounded")])

const onStoreError = optional(Schema.Literals(["allow", "refuse"])).annotate({
  description: "What a call gets while the store that counts cannot be reached"
})

const rate = {
  limit: AtLeastOne,
  window: Span,
  algorithm: optional(Schema.Literals(["token-bucket", "fixed-window"])),
  onStoreError
}

/** What a host says about a tool. */
export const Tool = Schema.Struct({
  promoted: optional(Schema.Boolean).annotate({
    description: "Calls of the tool may overlap, though it changes things"
  }),
  maxConcurrent: optional(AtLeastOne).annotate({ description: "Concurrent calls of the tool" }),
  timeout: optional(Span).annotate({ description: "How long a call may run" }),
  idleTimeout: optional(Span).annotate({ description: "How long a call may run without reporting progress" }),
  retryOnTimeout: optional(Schema.Boolean).annotate({
    description: "Whether the tool may be called again after it ran out of time"
  }),
  circuitBreaker: optional(Schema.Struct({
    failures: optional(AtLeastOne).annotate({ description: "Failures in a row that open it" }),
    rate: optional(Schema.Struct({
      threshold: optional(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))),
      calls: optional(AtLeastOne),
      minimumCalls: optional(AtLeastOne)
    })).annotate({ description: "A share of failures among the last calls that opens it instead" }),
    openFor: optional(Span).annotate({ description: "How long it stays open before one call may try" }),
    onStoreError
  })).annotate({ description: "When the tool is not to be called for a while, because it keeps failing" }),
  rateLimit: optional(Schema.Struct({ ...rate, per: optional(Schema.Literals(["everyone", "principal"])) })).annotate({
    description: "How many calls of the tool may start within a time"
  })
})

/** Fields of `dedupe`. */
export const dedupeFields = {
  scope: optional(Schema.Literals(["wave", "process", "batch", "session", "principal"])),
  window: optional(Span),
  readWindow: optional(Schema.Union([Schema.Literal(false), Span])),
  outcomes: optional(Schema.Array(Schema.Literals(["Succeeded", "Failed"]))),
  onDuplicate: optional(Schema.Literals(["reject", "replay"])),
  inFlight: optional(Schema.Literals(["reject", "join"]))
}

/** Rules, policy and limits of an executor. */
export const fields = {
  rules: optional(Schema.Array(ToolRule)).annotate({ description: "Rules that hold whatever the model wants" }),
  policy: optional(Policy.Policy).annotate({ description: "What may run; --allow, --deny and --mode add to it" }),
  provenance: optional(Provenance.Fields),
  dedupe: optional(Schema.Union([Schema.Literal(false), Schema.Struct(dedupeFields)]))
    .annotate({ description: "What becomes of equal calls; false lets them run" }),
  pools: optional(Schema.Struct({
    read: optional(AtLeastOne),
    concurrent: optional(AtLeastOne),
    serial: optional(AtLeastOne),
    shared: optional(Schema.Struct({ caps: optional(Schema.Boolean), keys: optional(Schema.Boolean) })).annotate({
      description: "Whether caps of tools and resource keys hold for all runners of a cluster together"
    })
  })).annotate({ description: "Concurrent calls, by class" }),
  output: optional(Schema.Struct({
    maxChars: optional(Chars),
    batchChars: optional(Chars),
    maxFileChars: optional(Chars),
    batchFileChars: optional(Chars)
  })).annotate({
    description: "Characters of the results that the model is given, and of files in them as base64"
  }),
  turn: optional(Schema.Struct({
    timeout: optional(Span),
    minimumSlice: optional(SpanOrNone),
    maxCalls: optional(AtLeastOne)
  })).annotate({ description: "Limits of the whole message" }),
  mode: optional(Schema.Literals(["classes", "parallel", "sequential"])),
  onExecutionError: optional(Schema.Literals(["continue", "stop"])).annotate({
    description: "Whether a call that is refused or runs out of time ends the rest"
  }),
  invisible: optional(Schema.Literals(["show", "remove", "refuse"])).annotate({
    description: "What becomes of text in results that a model reads and a person does not see; default show"
  }),
  executionTimeout: optional(Span).annotate({ description: "How long a call may run if its tool says nothing else" })
}

/** Further options of an executor that is driven by the loop of a host. */
export const loopFields = {
  commitTimeout: optional(Span).annotate({ description: "How long an outcome waits for a write that is under way" }),
  cleanupGrace: optional(Span).annotate({ description: "How long an interrupted caller waits for clean-up" }),
  approval: optional(Schema.Literals(["perCall", "upfront"])).annotate({
    description: "Whether people are asked about each call in its turn, or about the whole wave first"
  }),
  toolEvents: optional(Schema.Boolean).annotate({ description: "Whether events that tools emit are passed on" }),
  heartbeats: optional(Schema.Boolean).annotate({
    description: "Whether an agent goes on only if the model asks for it"
  }),
  exitAttempts: optional(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))).annotate({
    description: "How many waves a required tool may hold up the end of the loop"
  })
}
