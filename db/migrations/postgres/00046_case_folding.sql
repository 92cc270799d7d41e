-- +goose Up

-- What is searched is in the case in which Unicode compares letters.
UPDATE messages SET search_text = replace(replace(search_text, 'ς', 'σ'), 'ß', 'ss') WHERE search_text LIKE '%ς%' OR search_text LIKE '%ß%';
UPDATE threads SET search_title = replace(replace(search_title, 'ς', 'σ'), 'ß', 'ss') WHERE search_title LIKE '%ς%' OR search_title LIKE '%ß%';
