/**
 * The MCP server that the official conformance suite wants to find: its tools, on
 * standard input and output, to be put behind the gateway.
 *
 * Names, texts and schemas are those of the suite. Prompts, resources and
 * completion are not here: the gateway hands on tools.
 */
import {
  type CallToolResult,
  type ElicitRequestFormParams,
  Server,
  type ServerContext,
  type Tool
} from "@modelcontextprotocol/server"
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio"
import { setTimeout as sleep } from "node:timers/promises"

interface TestTool {
  readonly description: string
  readonly inputSchema?: Tool["inputSchema"]
  readonly annotations?: Tool["annotations"] | undefined
  readonly run: (args: Record<string, unknown>, context: ServerContext) => CallToolResult | Promise<CallToolResult>
}

/** A red point. */
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
/** Silence. */
const wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

const text = (text: string): CallToolResult => ({ content: [{ type: "text", text }] })
const argument = (name: string): Tool["inputSchema"] => ({
  type: "object",
  properties: { [name]: { type: "string" } },
  required: [name]
})

const elicit = async (
  { mcpReq }: ServerContext,
  what: string,
  message: string,
  requestedSchema: ElicitRequestFormParams["requestedSchema"]
) => {
  const { action, content } = await mcpReq.elicitInput({ mode: "form", message, requestedSchema })
  return text(`${what}: action=${action}, content=${JSON.stringify(content)}`)
}

const options = ["option1", "option2", "option3"]
const titled = (word: string) =>
  ["First", "Second", "Third"].map((nth, index) => ({
    const: `value${index + 1}`,
    title: `${nth} ${word}`
  }))

const tools: Readonly<Record<string, TestTool>> = {
  test_simple_text: {
    description: "Gives a text",
    annotations: { readOnlyHint: true },
    run: () => text("This is a simple text response for testing.")
  },
  test_image_content: {
    description: "Gives an image",
    annotations: { readOnlyHint: true },
    run: () => ({ content: [{ type: "image", data: png, mimeType: "image/png" }] })
  },
  test_audio_content: {
    description: "Gives a sound",
    annotations: { readOnlyHint: true },
    run: () => ({ content: [{ type: "audio", data: wav, mimeType: "audio/wav" }] })
  },
  test_embedded_resource: {
    description: "Gives a resource",
    annotations: { readOnlyHint: true },
    run: () => ({
      content: [{
        type: "resource",
        resource: {
          uri: "test://embedded-resource",
          mimeType: "text/plain",
          text: "This is an embedded resource content."
        }
      }]
    })
  },
  test_multiple_content_types: {
    description: "Gives a text, an image and a resource",
    annotations: { readOnlyHint: true },
    run: () => ({
      content: [
        { type: "text", text: "Multiple content types test:" },
        { type: "image", data: png, mimeType: "image/png" },
        {
          type: "resource",
          resource: {
            uri: "test://mixed-content-resource",
            mimeType: "application/json",
            text: `{"test":"data","value":123}`
          }
        }
      ]
    })
  },
  test_tool_with_logging: {
    description: "Writes three lines to the log of the client",
    run: async (_, { mcpReq }) => {
      await mcpReq.log("info", "Tool execution started")
      await sleep(50)
      await mcpReq.log("info", "Tool processing data")
      await sleep(50)
      await mcpReq.log("info", "Tool execution completed")
      return text("Tool with logging executed successfully")
    }
  },
  test_tool_with_progress: {
    description: "Tells three times how far it is",
    run: async (_, { mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined) {
          await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } })
        }
        await sleep(50)
      }
      return text(String(progressToken))
    }
  },
  test_error_handling: {
    description: "Fails",
    run: () => ({ ...text("This tool intentionally returns an error for testing"), isError: true })
  },
  test_sampling: {
    description: "Asks the model of the client",
    inputSchema: argument("prompt"),
    run: async ({ prompt }, { mcpReq }) => {
      const { content } = await mcpReq.requestSampling({
        messages: [{ role: "user", content: { type: "text", text: String(prompt) } }],
        maxTokens: 100
      })
      return text(`LLM response: ${"text" in content ? content.text : JSON.stringify(content)}`)
    }
  },
  test_elicitation: {
    description: "Asks the person behind the client",
    inputSchema: argument("message"),
    run: ({ message }, context) =>
      elicit(context, "User response", String(message), {
        type: "object",
        properties: {
          username: { type: "string", description: "User's response" },
          email: { type: "string", description: "User's email address" }
        },
        required: ["username", "email"]
      })
  },
  test_elicitation_sep1034_defaults: {
    description: "Asks with a form that is filled in",
    run: (_, context) =>
      elicit(context, "Elicitation completed", "Please review the form", {
        type: "object",
        properties: {
          name: { type: "string", default: "John Doe" },
          age: { type: "integer", default: 30 },
          score: { type: "number", default: 95.5 },
          status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
          verified: { type: "boolean", default: true }
        }
      })
  },
  test_elicitation_sep1330_enums: {
    description: "Asks with every kind of choice",
    run: (_, context) =>
      elicit(context, "Elicitation completed", "Please choose", {
        type: "object",
        properties: {
          untitledSingle: { type: "string", enum: options },
          titledSingle: { type: "string", oneOf: titled("Option") },
          legacyEnum: {
            type: "string",
            enum: ["opt1", "opt2", "opt3"],
            enumNames: ["Option One", "Option Two", "Option Three"]
          },
          untitledMulti: { type: "array", items: { type: "string", enum: options } },
          titledMulti: { type: "array", items: { anyOf: titled("Choice") } }
        }
      })
  },
  json_schema_2020_12_tool: {
    description: "Tool with JSON Schema 2020-12 features",
    inputSchema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: {
        address: {
          $anchor: "addressDef",
          type: "object",
          properties: { street: { type: "string" }, city: { type: "string" } }
        }
      },
      properties: {
        name: { type: "string" },
        address: { $ref: "#/$defs/address" },
        contactMethod: { type: "string", enum: ["phone", "email"] },
        phone: { type: "string" },
        email: { type: "string" }
      },
      allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
      if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
      then: { required: ["phone"] },
      else: { required: ["email"] },
      additionalProperties: false
    },
    run: (args) => text(JSON.stringify(args))
  },
  test_reconnection: {
    description: "Takes a while, so that a client may lose the connection and come again",
    run: async () => {
      await sleep(300)
      return text("Reconnection test completed successfully")
    }
  }
}

const server = new Server({ name: "conformance", version: "1.0.0" }, { capabilities: { logging: {}, tools: {} } })

const noArguments: Tool["inputSchema"] = { type: "object" }

server.setRequestHandler("tools/list", () => ({
  tools: Object.entries(tools).map(([name, { annotations, description, inputSchema = noArguments }]): Tool => ({
    name,
    description,
    inputSchema,
    annotations
  }))
}))

server.setRequestHandler("tools/call", async ({ params }, context) => {
  const tool = new Map(Object.entries(tools)).get(params.name)
  try {
    return tool === undefined
      ? { ...text(`There is no tool ${params.name}`), isError: true }
      : await tool.run(params.arguments ?? {}, context)
  } catch (error) {
    return { ...text(String(error)), isError: true }
  }
})

await server.connect(new StdioServerTransport())
