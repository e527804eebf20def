export type * from "../Undo.ts"
export { plan, restore, UndoRefused } from "../Undo.ts"
