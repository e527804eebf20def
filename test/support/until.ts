/** Waits, turn by turn of the event loop, until something holds. For programs that run outside of Effect. */
export const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}
