/** A model of LangChain that makes the calls of each turn, then says that it is done. */
import { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { AIMessage, type BaseMessage } from "@langchain/core/messages"
import type { Call } from "./scriptedModel.ts"

export class ScriptedChat extends BaseChatModel {
  readonly seen: Array<ReadonlyArray<BaseMessage>> = []
  readonly bound: Array<unknown> = []
  readonly turns: ReadonlyArray<ReadonlyArray<Call>>
  constructor(turns: ReadonlyArray<ReadonlyArray<Call>>) {
    super({})
    this.turns = turns
  }
  override _llmType() {
    return "scripted"
  }
  override bindTools(tools: ReadonlyArray<unknown>) {
    this.bound.push(...tools)
    return this as never
  }
  override _generate(messages: Array<BaseMessage>) {
    const turn = this.turns[this.seen.length] ?? []
    this.seen.push([...messages])
    const tool_calls = turn.map(([id, name, args]) => ({ id, name, args: args as object, type: "tool_call" as const }))
    const text = turn.length === 0 ? "done" : ""
    return Promise.resolve({ generations: [{ text, message: new AIMessage({ content: text, tool_calls }) }] })
  }
}
