/**
 * The page: where it begins.
 *
 * @since 0.1.0
 */
import { render } from "preact"
import { html } from "./html.ts"

const place = document.getElementById("app")
if (place !== null) render(html`<main><h1>tool-executor</h1></main>`, place)
