/**
 * The way in: a token is given for a cookie that no script can read. The page keeps the token
 * nowhere, and empties the field as soon as it is sent.
 *
 * @since 0.1.0
 */
import type { VNode } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import type { Me } from "../server/ApiModels.ts"
import { post } from "./api.ts"
import { html } from "./html.ts"
import { me } from "./state.ts"

/** A form for the token. */
export const Login = (): VNode => {
  const field = useRef<HTMLInputElement>(null)
  const [problem, setProblem] = useState("")
  useEffect(() => {
    document.title = "Log in – tool-executor"
    field.current?.focus()
  }, [])
  const submit = async (event: Event) => {
    event.preventDefault()
    const token = field.current?.value.trim() ?? ""
    if (field.current !== null) field.current.value = ""
    if (token === "") return setProblem("Enter a token.")
    const reply = await post<Me>("api/login", { token })
    if (reply.ok) me.value = reply.value
    else {
      setProblem(reply.problem.status === 401 ? "This token is not valid, or not any more." : reply.problem.title)
      field.current?.focus()
    }
  }
  // `one-time-code`: what is typed here is not for a browser to keep
  return html`
    <main class="login">
      <h1>tool-executor</h1>
      <form onSubmit=${submit}>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="one-time-code" spellcheck=${false} required
          ref=${field} aria-describedby="token-help token-problem" />
        <p id="token-help" class="muted">Whoever runs this server gives you one.</p>
        <p id="token-problem" class="problem" role="alert">${problem}</p>
        <button type="submit" class="main">Log in</button>
      </form>
    </main>`
}
