/** Links in a result that only its server's own client can follow: they are followed, or said not to lead anywhere. */
import type { CallToolResult, ContentBlock, ReadResourceResult, ResourceLink } from "@modelcontextprotocol/client"

/** Gives a result whose links to resources of the server are what they lead to; `read` is there where the server has resources. */
export const resolved = async (
  result: CallToolResult,
  read: ((uri: string) => Promise<ReadResourceResult>) | undefined
): Promise<CallToolResult> => {
  if (!result.content.some(isLink)) return result
  const content: Array<ContentBlock> = []
  let links = 0
  let chars = 0
  for (const block of result.content) {
    if (!isLink(block)) {
      content.push(block)
      continue
    }
    const contents = read === undefined || ++links > maxLinks || chars > maxChars
      ? []
      : await read(block.uri).then((it) => it.contents, () => [])
    for (const resource of contents) {
      chars += "text" in resource ? resource.text.length : resource.blob.length
      content.push({ type: "resource", resource })
    }
    if (contents.length === 0) {
      content.push({ type: "text", text: `[${block.name}: ${block.uri} cannot be read from here]` })
    }
  }
  return { ...result, content }
}

/** Links of a result that are followed, and characters after which no more are. */
const maxLinks = 10
const maxChars = 10_000_000

/** Links to the web need no resolving: clients can follow them. */
const isLink = (block: ContentBlock): block is ResourceLink =>
  block.type === "resource_link" && !/^https?:/i.test(block.uri)
