/** The page: where it begins. */
import { render } from "preact"
import { App } from "./App.ts"
import { html } from "./html.ts"
import { followAddress } from "./routes.ts"
import { keepTime } from "./state.ts"

const place = document.getElementById("app")
if (place !== null) {
  followAddress()
  keepTime()
  render(html`<${App} />`, place)
}
