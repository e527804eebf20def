export type * from "../workspace/Undo.ts"
export { plan, restore, UndoRefused } from "../workspace/Undo.ts"
