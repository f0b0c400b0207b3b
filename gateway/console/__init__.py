"""The console: web pages that show what the gateway does, at `/console`.

`assets/` holds the files that a browser gets, without a build step: one HTML page, a style sheet and
JavaScript modules. The pages call only the public API, with the key that the user types in.

    index.html     the frame of every page: its heading, navigation and key
    shell.js       shows the page that the address names: `#/toolsets/weather`
    page_table.js  the pages: one line each
    pages/*.js     a page: `show(place, signal)` gives its content
    api.js         calls the API; an error is a `Problem`
    typed_input.js keeps what was typed into a form and not sent
    renewal.js     shows a part of a page anew; the focus stays
    elements.js    makes elements; text from elsewhere never becomes HTML
    parts.js       what pages share: tables, forms, plots, what is said when there is nothing to show
    vendor/        libraries, with their licences
"""
