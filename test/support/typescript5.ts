/** For programs that need the API of TypeScript 5, which 7 does not have: `typescript` is `typescript-5` for them. */
import { registerHooks } from "node:module"

registerHooks({
  resolve: (specifier, context, next) => next(specifier === "typescript" ? "typescript-5" : specifier, context)
})
