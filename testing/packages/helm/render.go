// Renders a Helm chart as `helm template` does, with Go's own templates and Helm's functions, for machines without helm.
//
//	render CHART RELEASE [VALUES.yaml]
//
// Prints the documents. Knows what this repository's chart uses: values, helpers, include, fail, toYaml, lookup (which finds nothing).
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

func read(path string) map[string]any {
	values := map[string]any{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &values)
	}
	stop(err)
	return values
}

// merge puts values over defaults, map by map.
func merge(defaults, values map[string]any) {
	for key, value := range values {
		inner, isMap := value.(map[string]any)
		known, wasMap := defaults[key].(map[string]any)
		if _, isKnown := defaults[key]; !isKnown {
			stop(fmt.Errorf("values.yaml has no %q", key))
		}
		if isMap && wasMap && len(known) > 0 {
			merge(known, inner)
		} else {
			defaults[key] = value
		}
	}
}

func stop(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) < 3 {
		stop(fmt.Errorf("usage: render CHART RELEASE [VALUES.yaml]"))
	}
	folder, release := os.Args[1], os.Args[2]
	values := read(filepath.Join(folder, "values.yaml"))
	if len(os.Args) > 3 {
		merge(values, read(os.Args[3]))
	}
	chart := map[string]any{}
	for key, value := range read(filepath.Join(folder, "Chart.yaml")) {
		chart[strings.ToUpper(key[:1])+key[1:]] = value
	}
	all := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data any) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["fail"] = func(text string) (string, error) { return "", fmt.Errorf("%s", text) }
	functions["lookup"] = func(...string) map[string]any { return map[string]any{} }
	all.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	stop(err)
	name := func(file string) string { return chart["Name"].(string) + "/templates/" + filepath.Base(file) }
	for _, file := range files {
		text, err := os.ReadFile(file)
		stop(err)
		_, err = all.New(name(file)).Parse(string(text))
		stop(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".tpl") {
			continue
		}
		data := map[string]any{
			"Values":   values,
			"Chart":    chart,
			"Release":  map[string]any{"Name": release, "Namespace": "default", "Service": "Helm"},
			"Template": map[string]any{"Name": name(file), "BasePath": chart["Name"].(string) + "/templates"},
		}
		var out bytes.Buffer
		stop(all.ExecuteTemplate(&out, name(file), data))
		text := out.String()
		if strings.Contains(text, "<no value>") {
			stop(fmt.Errorf("%s asks for a value that nobody gives", file))
		}
		if strings.HasSuffix(file, ".txt") || strings.TrimSpace(text) == "" {
			continue
		}
		fmt.Printf("---\n# Source: %s\n%s\n", name(file), text)
	}
}
