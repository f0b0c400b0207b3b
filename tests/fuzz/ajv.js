// Answers questions about schemas and patterns, a line of JSON each. NODE_PATH leads to ajv.
const readline = require("readline");

const STANDARD_FORMATS = [
    "date", "time", "date-time", "duration", "uri", "uri-reference", "uri-template", "email", "hostname", "ipv4", "ipv6",
    "regex", "uuid", "json-pointer", "relative-json-pointer",
];

function compiled(draft, schema) {
    const module = { 4: "ajv-draft-04", 6: "ajv", 7: "ajv", 2019: "ajv/dist/2019", 2020: "ajv/dist/2020" }[draft];
    const Ajv = require(module).default || require(module);
    const ajv = new Ajv({
        strict: false,
        logger: false,
        validateSchema: false,
        ownProperties: true, // "toString" is no key of {}
        ignoreKeywordsWithRef: draft <= 7,
    });
    require("ajv-formats").default(ajv, STANDARD_FORMATS);
    return ajv.compile(schema);
}

function matches(pattern, texts) {
    // Without the flag, characters beyond U+FFFF are two, and \\p and \\u{} mean letters: there the flag decides.
    const isAlike = !/[\uD800-\uDFFF]|\\[pPu]/.test(pattern + texts.join(""));
    for (const flags of isAlike ? ["u", ""] : ["u"]) {
        try {
            const expression = new RegExp(pattern, flags);
            return texts.map((text) => expression.test(text));
        } catch {}
    }
    return null;
}

const NUM_KEPT = 16;
const validators = new Map();
let numRead = 0;
const ANSWERS = {
    schema: ({ draft, schema }) => {
        validators.set(++numRead, compiled(draft, schema));
        validators.delete(numRead - NUM_KEPT);
        return numRead;
    },
    instance: ({ schema, text }) => {
        const validate = validators.get(schema);
        const isValid = validate(JSON.parse(text));
        return isValid ? "" : `${validate.errors[0].instancePath} ${validate.errors[0].message}`;
    },
    pattern: ({ pattern, texts }) => matches(pattern, texts),
};

readline.createInterface({ input: process.stdin }).on("line", (line) => {
    const asked = JSON.parse(line);
    let answer;
    try {
        answer = { answer: ANSWERS[asked.question](asked) };
    } catch (error) {
        answer = { failed: String(error) };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
});
