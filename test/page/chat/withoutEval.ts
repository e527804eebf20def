/** The policy of the server's page forbids `eval`, which zod would try as soon as it has a schema. */
import { config } from "zod"

config({ jitless: true })
