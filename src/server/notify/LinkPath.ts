/** Where links are. */

/** Tells whether a path or URL is that of a link: it has a token, which logs and traces must not have. */
export const isLink = (path: string): boolean => path.startsWith("/links/")
