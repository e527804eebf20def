/** A port with something around its operations: a measurement, a fault, another clock. */
import type * as Effect from "effect/Effect"

/**
 * Gives operations of a port with something around each. An operation is an effect, or a function that returns one.
 * `run` runs the operation of the port.
 */
export const around = <P extends object, K extends keyof P & string>(
  port: P,
  operations: ReadonlyArray<K>,
  wrap: <A, E>(run: () => Effect.Effect<A, E>, operation: K) => Effect.Effect<A, E>
): Pick<P, K> =>
  Object.fromEntries(operations.map((name) => {
    const operation: unknown = port[name]
    return [
      name,
      typeof operation === "function"
        ? (...args: ReadonlyArray<unknown>) => wrap(() => Reflect.apply(operation, port, args), name)
        : wrap(() => operation as Effect.Effect<unknown>, name)
    ]
  })) as Pick<P, K>
