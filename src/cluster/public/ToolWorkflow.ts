export { layer, layerEnds, Operation, Wave } from "../ToolWorkflow.ts"
