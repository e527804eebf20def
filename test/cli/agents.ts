/** `tool-executor agent` against servers of the protocols that providers speak. */
import { NodeServices } from "@effect/platform-node"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { anthropic } from "../support/providers/anthropic.ts"
import { google } from "../support/providers/google.ts"
import { openaiChat } from "../support/providers/openaiChat.ts"
import { openaiCompatible } from "../support/providers/openaiCompatible.ts"
import { openaiResponses } from "../support/providers/openaiResponses.ts"
import type { Script } from "../support/providers/script.ts"
import { serve } from "../support/providers/server.ts"
import * as Harness from "./harness.ts"
import * as Process from "./process.ts"

/** A key as no text but one that tells it has. */
export const key = "sk-test-0123456789-abcdefghij"

export const providers = {
  openai: { model: "openai:gpt-5", serve: (script: Script) => serve(openaiResponses(), script), path: "/v1" },
  "openai-chat": { model: "openai-chat:gpt-5", serve: (script: Script) => serve(openaiChat(), script), path: "/v1" },
  anthropic: {
    model: "anthropic:claude-sonnet-4-5",
    serve: (script: Script) => serve(anthropic(), script),
    path: "/v1"
  },
  google: { model: "google:gemini-3-pro-preview", serve: (script: Script) => serve(google(), script), path: "/v1beta" },
  "openai-compatible": {
    model: "openai-compatible:local:8b",
    serve: (script: Script) => serve(openaiCompatible(), script),
    path: "/v1"
  }
} as const

/** An environment that says nothing of models. */
export const bare = {
  OPENAI_API_KEY: undefined,
  ANTHROPIC_API_KEY: undefined,
  GOOGLE_GENERATIVE_AI_API_KEY: undefined,
  OPENAI_COMPATIBLE_API_KEY: undefined,
  TOOL_EXECUTOR_MODEL: undefined
}

/** Runs a command line in this process, in an environment of its own. */
export const runHere = (
  args: ReadonlyArray<string>,
  { env, ...options }: Harness.Options & { readonly env?: Readonly<Record<string, string>> } = {}
) =>
  Effect.provide(Harness.run(["agent", ...args], options), ConfigProvider.layer(ConfigProvider.fromUnknown(env ?? {})))

/** A root with files, a state folder of its own, and a model that follows a script. */
export const world = Effect.fnUntraced(function*(
  script: Script,
  files: Readonly<Record<string, unknown>> = {},
  provider: keyof typeof providers = "openai-chat"
) {
  const { exists, file, read, root } = yield* Harness.folder(files)
  const aside = yield* Harness.folder({})
  const { model, path, serve } = providers[provider]
  const server = yield* serve(script)
  const given = ({ at = root, baseUrl = `${server.url}${path}` } = {}) => [
    "--root",
    at,
    "--model",
    model,
    "--base-url",
    baseUrl
  ]
  const env = {
    XDG_STATE_HOME: aside.file("state"),
    OPENAI_API_KEY: key,
    ANTHROPIC_API_KEY: key,
    GOOGLE_GENERATIVE_AI_API_KEY: key,
    OPENAI_COMPATIBLE_API_KEY: key
  }
  const run = (args: ReadonlyArray<string>, options: Process.Options = {}) =>
    Process.run(["agent", ...given(), ...args], { ...options, env: { ...bare, ...env, ...options.env } })
  const atTerminal = (args: ReadonlyArray<string>, ...type: ReadonlyArray<string>) =>
    Process.runAtTerminal(["agent", ...given(), ...args], { env: { ...bare, ...env }, type })
  const here = (args: ReadonlyArray<string>, options: Parameters<typeof given>[0] = {}) =>
    runHere([...given(options), ...args], { env })
  const undo = Effect.provide(
    Harness.run(["undo", "--root", root]),
    ConfigProvider.layer(ConfigProvider.fromUnknown(env))
  )
  return { run, here, atTerminal, undo, root, file, read, exists, aside, server }
})

/** The URL of a server that lets nobody in, and says this. */
export const refusing = (said: unknown) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const server = createServer((_, response) => response.writeHead(401).end(JSON.stringify(said)))
        await once(server.listen(0, "127.0.0.1"), "listening")
        return server
      }),
      (server) => Effect.sync(() => server.close())
    ),
    (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  )

/** All files of a folder, with their modes. */
export const modesIn = Effect.fnUntraced(function*(directory: string) {
  const files = yield* FileSystem.FileSystem
  const names = yield* files.readDirectory(directory, { recursive: true })
  return yield* Effect.forEach(
    names,
    (name) => Effect.map(files.stat(`${directory}/${name}`), ({ mode, type }) => ({ name, type, mode: mode & 0o777 }))
  )
}, Effect.provide(NodeServices.layer))

/** The events that it has printed. */
export const events = (stdout: string) =>
  stdout.trim().split("\n").map((line) => JSON.parse(line) as Record<string, unknown> & { readonly event: string })

export const read = { name: "read_file", args: { path: "a.txt" } }
export const write = { name: "write_file", args: { path: "new.txt", content: "made" } }
export const command = (text: string) => ({ name: "run_command", args: { command: text } })

/** What the model was told of its calls in a request. */
export const resultsIn = (asked: { readonly messages: ReadonlyArray<{ readonly role: string }> } | undefined) =>
  (asked?.messages ?? []).flatMap((it) =>
    it.role === "tool" ? (it as { results?: ReadonlyArray<{ text: string }> }).results ?? [] : []
  ).map(({ text }) => text)
