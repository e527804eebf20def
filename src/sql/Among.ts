/**
 * Conditions of PostgreSQL: a value is among others. It takes an array for short, and looks each value up by an index. Of
 * a list in JSON it expects a hundred rows: for those it would read a table of ten thousand as a whole.
 */

/** Among the results of a query. */
export const amongAll = (query: string): string => `= ANY (ARRAY(${query}))`

/** Among the texts of a list in JSON. */
export const among = (json: string): string => amongAll(`SELECT json_array_elements_text(${json}::json)`)
