/**
 * Models by name, `PROVIDER:NAME`: each provider is a package of the AI SDK, and an optional peer that is loaded where
 * it is wanted.
 *
 * Keys come from the environment, never from the command line, where everybody on the machine could read them.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as AiSdkModel from "../../adapters/AiSdkModel.ts"
import { escape } from "../../internal/escape.ts"
import * as SecretTexts from "../../internal/secrets/index.ts"
import { type CliFailure, wrong } from "../CliFailure.ts"
import * as Variables from "../Variables.ts"

/** Names of the providers. */
export const providers = ["openai", "openai-chat", "anthropic", "google", "openai-compatible"] as const

/** The environment variable that names the model where no flag does. */
export const variable = "TOOL_EXECUTOR_MODEL"

/** What is said of the model. */
export interface Options {
  /** `PROVIDER:NAME`; where it is absent, the environment says it. */
  readonly name: string | undefined
  /** URL of the provider's API, instead of the default. */
  readonly baseUrl: string | undefined
}

/**
 * Makes the layer of a model; fails with exit code 2 and what to do about it where the name, the package, the key or
 * the URL is missing or wrong.
 */
export const make = Effect.fnUntraced(function*({ baseUrl, name: given }: Options) {
  const name = given ?? (yield* Variables.variable(variable))
  if (name === undefined) {
    return yield* wrong(`No model is given. Set --model PROVIDER:NAME, or ${variable} in the environment. ${expected}`)
  }
  const [, provider, model] = /^([^:]+):(.+)$/s.exec(name) ?? []
  if (provider === undefined || model === undefined || !isProvider(provider)) {
    return yield* wrong(`Unknown model ${escape(JSON.stringify(name))}. ${expected}`)
  }
  if (baseUrl !== undefined && !isHttp(baseUrl)) {
    return yield* wrong("--base-url is not an http or https URL, such as http://127.0.0.1:11434/v1")
  }
  const { load, variable: keyVariable } = sources[provider]
  if (provider === "openai-compatible" && baseUrl === undefined) {
    return yield* wrong("The provider openai-compatible needs --base-url, such as http://127.0.0.1:11434/v1")
  }
  // the package first: without it no key helps
  const make = yield* load
  const key = yield* Effect.orElseSucceed(Config.option(Config.Redacted(keyVariable)), Option.none)
  const apiKey = Option.match(key, { onNone: () => "", onSome: Redacted.value }).trim()
  // a local server may need no key
  if (apiKey === "" && baseUrl === undefined) {
    return yield* wrong(`The provider ${provider} needs a key: set ${keyVariable} in the environment`)
  }
  const layer = AiSdkModel.layerLanguageModel(
    make(model, { apiKey, baseURL: baseUrl }),
    // what a session keeps is all that there is: the provider keeps nothing that it would refer to
    provider === "openai" ? { providerOptions: { openai: { store: false } } } : {}
  )
  const secrets = apiKey.length < shortestKey ? [] : [apiKey]
  return {
    layer,
    /** The key, unless it is a word of any text. */
    secrets: secrets.map((it) => Redacted.make(it)),
    /** A text without the key, which a server may repeat in what it says. */
    withoutKey: (text: string) => SecretTexts.without(text, secrets)
  }
})

/** What is shorter stands for none, such as "none" or "ollama", and may be a word of any text. */
const shortestKey = 16

type Provider = typeof providers[number]

const isProvider = (name: string): name is Provider => (providers as ReadonlyArray<string>).includes(name)

const expected = `A model is named PROVIDER:NAME, such as openai:gpt-5; the providers are ${providers.join(", ")}.`

const isHttp = (url: string): boolean => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)

interface Settings {
  /** Empty: none. */
  readonly apiKey: string
  readonly baseURL: string | undefined
}

type Make = (model: string, settings: Settings) => AiSdkModel.ProviderModel

interface Source {
  /** Where its key is. */
  readonly variable: string
  readonly load: Effect.Effect<Make, CliFailure>
}

/** The settings of packages that take no call without a key. */
const withKey = ({ apiKey, baseURL }: Settings) => ({
  apiKey: apiKey === "" ? "none" : apiKey,
  ...baseURL === undefined ? {} : { baseURL }
})

const loading = <A>(name: string, load: () => Promise<A>): Effect.Effect<A, CliFailure> =>
  Effect.tryPromise({
    try: load,
    catch: (cause) => {
      const install = `npm install ${name}`
      return isMissing(name, cause)
        ? wrong(`The model needs ${name}: ${install}`)
        : wrong(
          `${name} cannot be loaded (${escape(cause instanceof Error ? cause.message : String(cause))}): ${install}`
        )
    }
  })

const isMissing = (name: string, cause: unknown): boolean =>
  cause instanceof Error && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND" &&
  cause.message.includes(`'${name}'`)

const openai = loading("@ai-sdk/openai", () => import("@ai-sdk/openai"))

const sources: { readonly [P in Provider]: Source } = {
  openai: {
    variable: "OPENAI_API_KEY",
    load: Effect.map(openai, (it) => (model, settings) => it.createOpenAI(withKey(settings)).responses(model))
  },
  "openai-chat": {
    variable: "OPENAI_API_KEY",
    load: Effect.map(openai, (it) => (model, settings) => it.createOpenAI(withKey(settings)).chat(model))
  },
  anthropic: {
    variable: "ANTHROPIC_API_KEY",
    load: Effect.map(
      loading("@ai-sdk/anthropic", () => import("@ai-sdk/anthropic")),
      (it) => (model, settings) => it.createAnthropic(withKey(settings))(model)
    )
  },
  google: {
    variable: "GOOGLE_GENERATIVE_AI_API_KEY",
    load: Effect.map(
      loading("@ai-sdk/google", () => import("@ai-sdk/google")),
      (it) => (model, settings) => it.createGoogleGenerativeAI(withKey(settings))(model)
    )
  },
  "openai-compatible": {
    variable: "OPENAI_COMPATIBLE_API_KEY",
    load: Effect.map(
      loading("@ai-sdk/openai-compatible", () => import("@ai-sdk/openai-compatible")),
      (it) => (model, { apiKey, baseURL }) =>
        it.createOpenAICompatible({
          name: "openai-compatible",
          baseURL: baseURL!,
          includeUsage: true,
          ...apiKey === "" ? {} : { apiKey }
        })(model)
    )
  }
}
