import { seedProperties } from "./seeds.ts"

seedProperties()
