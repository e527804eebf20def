/** What a server gets wrong in its answers is left out of them: the official client would refuse an answer for one part of it. */
import { type JSONRPCMessage, type SpecTypeName, specTypeSchemas, type Transport } from "@modelcontextprotocol/client"
import * as Predicate from "effect/Predicate"
import { clip } from "../internal/clip.ts"

/** Has what comes over a transport repaired; gives what takes the tools that were left out since it was last asked, and why. */
export const repairing = (transport: Transport): () => ReadonlyArray<string> => {
  let leftOut: Array<string> = []
  let listener: Transport["onmessage"]
  Object.defineProperty(transport, "onmessage", {
    get: () => listener,
    set: (next: Transport["onmessage"]) => {
      listener = next && ((message, extra) => next(repaired(message, leftOut), extra))
    }
  })
  return () => {
    const taken = leftOut
    leftOut = []
    return taken
  }
}

/** Why a tool cannot be called with the headers that its schema asks for, in revisions of the protocol that have them. */
export const headerProblem = (schema: unknown): string | undefined => {
  const names = new Set<string>()
  const problemIn = (node: unknown, isProperty: boolean, isReachable: boolean): string | undefined => {
    if (typeof node !== "object" || node === null) return undefined
    if (headerKey in node) {
      const name = node[headerKey]
      const type = "type" in node ? node.type : undefined
      if (!isProperty) return `${headerKey} stands where no property is`
      if (typeof name !== "string" || !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) return `${shown(name)} is no header`
      if (type !== "string" && type !== "integer" && type !== "boolean") {
        return `the header "${name}" has no plain value`
      }
      if (names.size === names.add(name.toLowerCase()).size) return `the header "${name}" has two values`
    }
    for (const [key, child] of Object.entries(node)) {
      const areProperties = key === "properties" && isReachable && !Array.isArray(node)
      const parts = areProperties && Predicate.isObject(child) ? Object.values(child) : [child]
      for (const part of parts) {
        const problem = problemIn(part, areProperties, areProperties)
        if (problem !== undefined) return problem
      }
    }
    return undefined
  }
  return problemIn(schema, false, true)
}

const headerKey = "x-mcp-header"

const repaired = <M extends JSONRPCMessage>(message: M, leftOut: Array<string>): M => {
  if (!Predicate.hasProperty(message, "result") || !Predicate.isObject(message.result)) return message
  const result: Readonly<Record<string, unknown>> = message.result
  if (Array.isArray(result.tools)) {
    const tools = result.tools.filter((tool: unknown) => {
      const problem = problemOf("Tool", tool)
      const name = Predicate.hasProperty(tool, "name") ? tool.name : tool
      if (problem !== undefined) leftOut.push(`${shown(name)} is malformed (${problem}); the tool is left out`)
      return problem === undefined
    })
    return tools.length === result.tools.length ? message : { ...message, result: { ...result, tools } }
  }
  if (!Array.isArray(result.content)) return message
  const { _meta, isError, structuredContent, ...rest } = result
  return {
    ...message,
    result: {
      ...rest,
      content: result.content.map(blockOf),
      ...Predicate.isObject(structuredContent) ? { structuredContent } : {},
      ...Predicate.isObject(_meta) ? { _meta } : {},
      // an invalid `isError` counts as an error
      ...isError === undefined || isError === false ? {} : { isError: true }
    }
  }
}

const blockOf = (block: unknown): unknown => {
  const isText = Predicate.hasProperty(block, "type") && block.type === "text" &&
    Predicate.hasProperty(block, "text") && typeof block.text === "string"
  if (isText && Object.keys(block).length === 2) return block
  const problem = problemOf("ContentBlock", block)
  if (problem === undefined) return block
  if (isText) return { type: "text", text: block.text }
  const type = Predicate.hasProperty(block, "type") ? block.type : block
  return { type: "text", text: `[content of the type ${shown(type)} was left out: it is malformed]` }
}

const problemOf = (name: SpecTypeName, value: unknown): string | undefined => {
  const { issues } = specTypeSchemas[name]["~standard"].validate(value)
  if (issues === undefined) return undefined
  const [issue] = issues
  const path = (issue?.path ?? []).map((it) => String(Predicate.isObject(it) ? it.key : it)).join(".")
  return clip(path === "" ? issue?.message ?? "unknown" : `${path}: ${issue?.message}`, 200)
}

const shown = (value: unknown): string => clip(JSON.stringify(value) ?? "nothing", 100)
