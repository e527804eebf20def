import { keyName } from "./model.ts"

/** Ends the program with an explanation if the key of the provider is missing. */
export const requireKey = (): void => {
  if ((process.env[keyName] ?? "").trim() !== "") return
  console.error(
    `${keyName} is not set, so the model cannot be reached.\n\n` +
      `  Copy .env.example to .env and write the key there, or run: export ${keyName}=…\n\n` +
      `The tests need no key.`
  )
  process.exit(1)
}
