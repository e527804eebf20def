export type * from "../notify/AnswerLinks.ts"
export { layer } from "../notify/AnswerLinks.ts"
