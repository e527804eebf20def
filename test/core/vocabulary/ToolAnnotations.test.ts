import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ToolAnnotations } from "../../../src/index.ts"

const Deploy = Tool.make("deploy", {
  parameters: Schema.Struct({ env: Schema.String, replicas: Schema.Finite }),
  success: Schema.String
}).annotate(ToolAnnotations.Promoted, true)

describe("annotations typed by their tool", () => {
  it("become the annotations that the registry reads, and leave the others", () => {
    const annotated = ToolAnnotations.for(Deploy, {
      resources: ({ env }) => [env],
      targets: ({ env }) => [{ text: env, kind: "protected" }],
      preview: ({ env }) => Effect.succeed([{ path: env, before: undefined, after: "x" }]),
      reconcile: ({ env }, { idempotencyKey }) => Effect.succeed({ _tag: "Happened", result: env + idempotencyKey })
    })
    const { annotations } = annotated
    const params = { env: "live", replicas: 1 }
    assert.deepStrictEqual(Context.get(annotations, ToolAnnotations.Resources)?.(params), ["live"])
    assert.deepStrictEqual(Context.get(annotations, ToolAnnotations.Targets)?.(params), [
      { text: "live", kind: "protected" }
    ])
    assert.isDefined(Context.get(annotations, ToolAnnotations.Preview))
    assert.isDefined(Context.get(annotations, ToolAnnotations.Reconcile))
    assert.isTrue(Context.get(annotations, ToolAnnotations.Promoted))
    assert.isUndefined(Context.get(Deploy.annotations, ToolAnnotations.Resources))
    assert.strictEqual(annotated.name satisfies "deploy", "deploy")
  })

  it("take no field that the tool does not have, and no result of another type", () => {
    // @ts-expect-error the tool has no `region`
    ToolAnnotations.for(Deploy, { resources: ({ region }) => [region] })
    // @ts-expect-error `replicas` is a number
    ToolAnnotations.for(Deploy, { targets: ({ replicas }) => [{ text: replicas }] })
    // @ts-expect-error the tool has no `region`
    ToolAnnotations.for(Deploy, { preview: ({ region }) => Effect.succeed([{ path: region, before: "", after: "" }]) })
    // @ts-expect-error the result of the tool is a text
    ToolAnnotations.for(Deploy, { reconcile: () => Effect.succeed({ _tag: "Happened", result: 1 } as const) })
  })
})
