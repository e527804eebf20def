/** Shows the chat of the guide: `#SESSION,TOKEN` says which one. */
import "./withoutEval.ts"
import { createRoot } from "react-dom/client"
import { Chat } from "./Chat.tsx"

const [session = "", token = ""] = location.hash.slice(1).split(",")

createRoot(document.querySelector("#chat")!).render(<Chat session={session} token={token} />)
