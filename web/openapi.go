package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"
)

// The description is written by hand; a test keeps it in step with the routes.
//
//go:embed openapi.yaml
var openAPISource []byte

// openAPIDocument returns the description as JSON, which is made when somebody asks for it.
var openAPIDocument = sync.OnceValues(func() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPISource, &doc); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode openapi.yaml: %w", err)
	}
	return out, nil
})

// description serves the API description.
type description struct{}

func (h description) routes(r router) { r.GET("/openapi.json", h.serve) }

func (description) serve(c echo.Context) error {
	doc, err := openAPIDocument()
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-cache")
	return c.JSONBlob(http.StatusOK, doc)
}
