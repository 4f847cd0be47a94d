// The SDK for `import`; the code is in index.cjs because Node before 22 cannot `require` an ES module.
export { Run } from "./index.cjs";
