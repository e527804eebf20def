/** Key of a result whose `modelOutput` is a part of it, since it is large. */
export const Shortened: unique symbol = Symbol.for("effect-tool-executor/GuardedToolkit/Shortened")
