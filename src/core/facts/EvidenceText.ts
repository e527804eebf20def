/** Evidence in words. Pure, and used in browsers. */
import type { Evidence } from "./Evidence.ts"

/** Says evidence in one sentence. Texts of others are in it as they are: show it as an untrusted text. */
export const sentence = (evidence: Evidence): string => {
  switch (evidence._tag) {
    case "Origin": {
      const { from, origin, path, value } = evidence
      return `${path} is ${JSON.stringify(value)}: ${origins[origin](from)}.`
    }
    case "Sandboxed": {
      const { driver, holds, missing, network } = evidence
      const secrets = holds.includes("secrets") ? " It cannot read files with secrets." : ""
      const left = missing.length === 0 ? "" : ` This system does not enforce: ${missing.join(", ")}.`
      return `It runs in a sandbox (${driver}) ${networks[network]}.${secrets}${left}`
    }
    case "Reviewed":
      return `The reviewer ${verdicts[evidence.verdict]}: ${evidence.reason}`
    case "Unseen": {
      const { characters, text, where } = evidence
      const many = characters === 1 ? "1 invisible character" : `${characters} invisible characters`
      return `${where} contains ${many}${text === undefined ? "" : `, which spell ${JSON.stringify(text)}`}.`
    }
  }
}

/** Changes the texts that may hold a secret. */
export const mapTexts = (evidence: Evidence, change: (text: string) => string): Evidence => {
  switch (evidence._tag) {
    case "Origin":
      return {
        ...evidence,
        value: change(evidence.value),
        ...(evidence.from === undefined ? {} : { from: change(evidence.from) })
      }
    case "Sandboxed":
      return evidence
    case "Reviewed":
      return { ...evidence, reason: change(evidence.reason) }
    case "Unseen":
      return {
        ...evidence,
        where: change(evidence.where),
        ...(evidence.text === undefined ? {} : { text: change(evidence.text) })
      }
  }
}

const origins: Readonly<
  Record<Extract<Evidence, { readonly _tag: "Origin" }>["origin"], (from: string | undefined) => string>
> = {
  user: () => "the user wrote it",
  named: (from = "a trusted output") => `${from} lists it, in a record that the user named`,
  listed: (from = "a trusted output") => `${from} lists it, but the user's words do not select it`,
  model: () => "it appears nowhere in the conversation",
  untrusted: (from = "content that others wrote") => `it appears only in ${from}`
}

const networks: Readonly<Record<Extract<Evidence, { readonly _tag: "Sandboxed" }>["network"], string>> = {
  none: "without network",
  listed: "that reaches only listed hosts",
  open: "with network"
}

const verdicts = { allow: "would allow it", ask: "hands it to a person", deny: "would deny it" } as const
