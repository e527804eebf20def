/** What the end of a model's turn says of its calls. */
import type * as Response from "effect/ai/Response"

/**
 * - `"whole"`: the provider said that the turn is over, so its calls run.
 * - `"cut"`: a length or a filter ended it. None of its calls runs; the model may ask again.
 * - `"failed"`: the provider said that something went wrong.
 * - `"broken"`: the provider did not say that it is over. More may have been to come.
 */
export const turnEnd = (reason: Response.FinishReason | undefined): "whole" | "cut" | "failed" | "broken" => {
  switch (reason) {
    case "length":
    case "content-filter":
      return "cut"
    case "error":
      return "failed"
    case undefined:
    case "unknown":
      return "broken"
    default:
      return "whole"
  }
}
