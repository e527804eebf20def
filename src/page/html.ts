/** Templates: `htm` over preact. A value in a template is a text or an element, and never markup. */
import htm from "htm"
import { h, type VNode } from "preact"

/** Gives the element of a template that has one. */
export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: ReadonlyArray<unknown>) => VNode
