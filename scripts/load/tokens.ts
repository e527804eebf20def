// A token for each user of a load, the same in the server and in its clients.
import { createHash } from "node:crypto"

export const tokenOf = (user: number): string => createHash("sha256").update(`load ${user}`).digest("hex")
