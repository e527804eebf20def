/** The version of this package, as its peers are told. */
export const version = "0.1.0"
