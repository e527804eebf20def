/** Endpoints for the notifications of devices. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { Authorization, Checks } from "./ApiAccess.ts"
import * as Problems from "./ApiProblems.ts"

const { Invalid, NotAllowed, NotFound, Unavailable } = Problems

const Endpoint = Schema.String.check(Schema.isMaxLength(2_000))
const Key = Schema.String.check(Schema.isMaxLength(200))

/** Devices that the current user is notified on. Without `WebPush`, these answer 404. */
export class PushGroup extends HttpApiGroup.make("push")
  .add(
    HttpApiEndpoint.get("key", "/push", {
      /** The key that browsers subscribe with. */
      success: Schema.Struct({ publicKey: Schema.String }),
      error: [NotAllowed, NotFound]
    }).annotate(OpenApi.Summary, "Read the key for push notifications"),
    HttpApiEndpoint.post("subscribe", "/push/subscribe", {
      payload: Schema.Struct({ endpoint: Endpoint, keys: Schema.Struct({ p256dh: Key, auth: Key }) }),
      success: HttpApiSchema.NoContent,
      error: [Invalid, NotAllowed, NotFound, Unavailable]
    }).annotateMerge(OpenApi.annotations({
      summary: "Subscribe a device",
      description: "Notifies a device of requests that the current user may approve: the `PushSubscription` of its " +
        "browser. At most 10 per user; one more forgets the oldest."
    })),
    HttpApiEndpoint.post("unsubscribe", "/push/unsubscribe", {
      payload: Schema.Struct({ endpoint: Endpoint }),
      success: HttpApiSchema.NoContent,
      error: [NotFound, Unavailable]
    }).annotate(OpenApi.Summary, "Unsubscribe a device")
  )
  .middleware(Checks)
  .middleware(Authorization)
  .prefix("/api")
{}
