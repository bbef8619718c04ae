package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// release is what is packaged, and as what.
type release struct {
	// root is the repository's folder.
	root string
	// version is the release's, without a "v".
	version string
	// image is the manager's and the speakers', with its tag or digest.
	image string
	// channel is the one in which the bundle is offered.
	channel string
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say what to make: chart, bundle or catalog")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	var r release
	flags.StringVar(&r.root, "root", ".", "the repository's folder")
	flags.StringVar(&r.version, "version", "", "the release's version, such as 0.1.0")
	flags.StringVar(&r.image, "image", developmentImage, "the image, with its tag or digest")
	flags.StringVar(&r.channel, "channel", "candidate", "the channel that the bundle is offered in")
	images := flags.String("bundle-images", "lanyard-bundle", "where the bundles' images are, whose tags are their versions")
	output := flags.String("output", "", "the folder to write to, instead of the one in the repository")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "catalog" {
		return writeCatalogs(cmp.Or(*output, filepath.Join(r.root, "dist/catalog")), *images, flags.Args())
	}
	if !semanticVersion.MatchString(r.version) {
		return fmt.Errorf("--version %q is no semantic version: write it as 0.1.0", r.version)
	}
	switch args[0] {
	case "chart":
		return writeChart(r)
	case "bundle":
		return writeBundle(r, cmp.Or(*output, filepath.Join(r.root, "bundle")))
	default:
		return fmt.Errorf("nothing is called %q: chart, bundle and catalog are", args[0])
	}
}

var semanticVersion = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// writeChart makes the chart's templates anew, and puts version and image into the files that are written by hand.
func writeChart(r release) error {
	objects, err := build(filepath.Join(r.root, "config/default"), r.image)
	if err != nil {
		return err
	}
	templates, err := chartTemplates(objects)
	if err != nil {
		return err
	}
	chart := filepath.Join(r.root, "dist/chart")
	if err := replaceGenerated(filepath.Join(chart, "templates"), templates); err != nil {
		return err
	}
	if err := edit(filepath.Join(chart, "Chart.yaml"), map[string]string{"version": r.version, "appVersion": r.version}); err != nil {
		return err
	}
	image := parseImage(r.image)
	return edit(filepath.Join(chart, "values.yaml"), map[string]string{
		"  repository": image.repository, "  tag": orNone(image.tag), "  digest": orNone(image.digest),
	})
}

// replaceGenerated writes templates, and removes those that were made before and are not among them.
func replaceGenerated(folder string, templates map[string]string) error {
	there, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range there {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("looking at what was made before: %w", err)
		}
		if _, still := templates[filepath.Base(file)]; !still && strings.HasPrefix(string(text), generatedMark) {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("removing a template that nothing stands for any more: %w", err)
			}
		}
	}
	for name, text := range templates {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing a template: %w", err)
		}
	}
	return nil
}

// edit sets fields of a file that stand on lines of their own, each once, and leaves its comments alone.
func edit(file string, fields map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading what is to be edited: %w", err)
	}
	edited := string(text)
	for field, value := range fields {
		line := regexp.MustCompile(`(?m)^` + field + `: .*$`)
		if found := line.FindAllString(edited, -1); len(found) != 1 {
			return fmt.Errorf("%s has %d lines that set %q, not one", file, len(found), strings.TrimSpace(field))
		}
		edited = line.ReplaceAllLiteralString(edited, field+": "+value)
	}
	if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
		return fmt.Errorf("writing what was edited: %w", err)
	}
	return nil
}

// image is a reference to an image, taken apart.
type image struct{ repository, tag, digest string }

func parseImage(reference string) image {
	var i image
	i.repository, i.digest, _ = strings.Cut(reference, "@")
	// A colon before the last slash is a registry's port.
	if colon := strings.LastIndex(i.repository, ":"); colon > strings.LastIndex(i.repository, "/") {
		i.repository, i.tag = i.repository[:colon], i.repository[colon+1:]
	}
	return i
}

// orNone returns a value as it is written into YAML.
func orNone(value string) string {
	if value == "" {
		return `""`
	}
	return value
}
