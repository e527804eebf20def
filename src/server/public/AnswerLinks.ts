export type * from "../AnswerLinks.ts"
export { layer } from "../AnswerLinks.ts"
