/**
 * Exchanges a token for a cookie that no script can read. The page never stores the token, and clears the field once
 * the token is sent.
 */
import type { VNode } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import type { Me } from "../server/api/ApiModels.ts"
import { post } from "./api.ts"
import { html } from "./html.ts"
import { icon } from "./pieces.ts"
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
      setProblem(
        reply.problem.status === 401
          ? "Invalid token. Copy it again, or create a new one."
          : reply.problem.status === 429
          ? "Too many attempts. Try again in 30 s."
          : reply.problem.title
      )
      field.current?.focus()
    }
  }
  // `one-time-code` keeps browsers from saving the token
  return html`
    <main class="login">
      <h1 class="row"><span class="logo">${icon("check")}</span>tool-executor</h1>
      <form class="card" onSubmit=${submit}>
        <label class="field" for="token">Token</label>
        <input class="input" id="token" name="token" type="password" autocomplete="one-time-code" spellcheck=${false} required
          ref=${field} aria-describedby="token-help token-problem" />
        <p id="token-help" class="muted small">Ask the operator of this server for a token.</p>
        <p id="token-problem" class=${problem === "" ? "" : "note bad"} role="alert">${problem}</p>
        <button type="submit" class="btn primary">Log in</button>
      </form>
    </main>`
}
