export type * from "../rules/RuleSet.ts"
export {
  allowedNext,
  describe,
  exitPending,
  explain,
  forcedNext,
  graph,
  history,
  make,
  problems,
  startPending
} from "../rules/RuleSet.ts"
