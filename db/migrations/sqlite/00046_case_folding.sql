-- +goose Up

-- What is searched is in the case in which Unicode compares letters. The function is the program's.
UPDATE messages SET search_text = search_form(search_text) WHERE search_text <> search_form(search_text);
UPDATE threads SET search_title = search_form(search_title) WHERE search_title <> search_form(search_title);
